// Applies the patches that clients have sent to a shopping list.

#include "patch.hh"

#include <cstdio>
#include <random>

static const char* const LIST = R"({"owner": "Mia", "open": true, "items": [
    {"name": "milk", "count": 2}, {"name": "bread", "count": 1}, {"name": "tea", "count": 3}],
    "shops": {"near": "Corner", "far": "Market"}, "note": null})";

static const char* const PATCHES[] = {
    R"([{"op": "add", "path": "/items/-", "value": {"name": "jam", "count": 1}}])",
    R"([{"op": "replace", "path": "/items/0/count", "value": 5}, {"op": "test", "path": "/owner", "value": "Mia"}])",
    R"([{"op": "move", "from": "/shops/far", "path": "/shops/market"}])",
    R"([{"op": "remove", "path": "/items/9"}, {"op": "remove", "path": "/note"}])",
    R"([{"op": "copy", "from": "/shops/closed", "path": "/shops/old"}, {"op": "add", "path": "/open", "value": false}])",
    R"([{"op": "move", "from": "/items/1", "path": "/items/0"}])",
    R"([{"op": "test", "path": "/shops/none", "value": 1}, {"op": "add", "path": "/tags", "value": ["weekly"]}])",
    R"([{"op": "remove", "path": "/shops/near"}, {"op": "move", "from": "/shops/near", "path": "/shops/home"}])",
    R"([{"op": "replace", "path": "/note", "value": "bring bags"}])",
    R"([{"op": "move", "from": "/note", "path": "/remark"}])",
    R"([{"op": "add", "path": "/items/1", "value": {"name": "salt"}}, {"op": "remove", "path": "/items/0"}])",
    R"([{"op": "copy", "from": "/items/2", "path": "/items/-"}])",
};
static constexpr std::size_t PATCH_COUNT = sizeof PATCHES / sizeof PATCHES[0];

static void print_result(const Value& document, const PatchReport& report)
{
    std::string text;
    write_json(document, text);
    std::printf("%s\n%u applied, %u refused, %zu nodes moved, %zu in all\n", text.c_str(), report.applied,
                report.refused, report.moved_nodes, count_nodes(document));
}

int main()
{
    Value document = parse_json(LIST);
    PatchReport report;

    // Whoever comes, comes: two clients at a time.
    std::random_device clients;
    for (int i = 0; i < 2; i++) {
        Patch patch = Patch::parse(PATCHES[clients() % PATCH_COUNT]);
        patch.apply(document, report); // @apply
    }
    print_result(document, report);
    return 0;
}
