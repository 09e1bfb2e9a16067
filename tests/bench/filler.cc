// What the rest of a large program looks like to a debugger: templates, their types, their lines. PART tells
// one compilation from another.
#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)

namespace NAMED(part, PART) {

struct Key {
    int group;
    long number;
    bool operator<(const Key &other) const { return number < other.number; }
    bool operator==(const Key &other) const { return number == other.number; }
};

struct Hash {
    size_t operator()(const Key &key) const { return size_t(key.number) * PART; }
};

struct Record {
    std::string name;
    std::vector<Key> keys;
    std::map<Key, std::string> names;
};

std::map<Key, Record> records;
std::unordered_map<Key, std::deque<Record>, Hash> history;

int work(const std::string &text, int seed)
{
    std::regex pattern("([a-z]+)=([0-9]+)");
    std::smatch match;
    int sum = seed;
    if (std::regex_search(text, match, pattern))
        sum += int(match.size());
    Record record{text, {{seed, 1}, {2, seed}}, {{{1, 2}, text}}};
    std::sort(record.keys.begin(), record.keys.end());
    records.emplace(Key{seed, 1}, record);
    history[Key{seed, 2}].push_back(record);
    std::function<int(int)> add = [&](int more) { return more + sum; };
    auto later = std::async(std::launch::deferred, add, 3);
    std::ostringstream out;
    out << later.get() << text;
    std::set<std::string> words{out.str()};
    return int(words.size()) + add(1);
}

} // namespace

extern "C" int filler(int seed) { return NAMED(part, PART)::work("a=1", seed); }
