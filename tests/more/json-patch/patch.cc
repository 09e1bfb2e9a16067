#include "patch.hh"

#include <charconv>

static bool to_index(std::string_view word, std::size_t& index)
{
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    return error == std::errc() && end == word.data() + word.size();
}

static Value* child(Value& value, std::string_view word)
{
    if (value.type == Type::Object) {
        auto found = value.members.find(std::string(word));
        return found == value.members.end() ? nullptr : &found->second; // @absent
    }
    std::size_t index;
    if (value.type == Type::Array && to_index(word, index) && index < value.items.size())
        return &value.items[index];
    return nullptr;
}

Value* resolve(Value& document, std::string_view path)
{
    Value* value = &document;
    while (value != nullptr && !path.empty()) {
        path.remove_prefix(1);
        std::string_view word = path.substr(0, path.find('/'));
        path.remove_prefix(word.size());
        value = child(*value, word); // @child
    }
    return value;
}

// The container that a path's last word is in.
static Value* parent_of(Value& document, const std::string& path, std::string& last)
{
    std::size_t slash = path.rfind('/');
    if (slash == std::string::npos)
        return nullptr;
    last = path.substr(slash + 1);
    return resolve(document, std::string_view(path).substr(0, slash));
}

Patch Patch::parse(std::string_view text)
{
    Patch patch;
    Value list = parse_json(text);
    for (Value& item : list.items) {
        Operation operation;
        operation.op = item.members["op"].text;
        operation.path = item.members["path"].text;
        operation.from = item.members["from"].text;
        operation.value = std::move(item.members["value"]);
        patch.operations_.push_back(std::move(operation));
    }
    return patch;
}

bool Patch::add(Value& document, const std::string& path, Value value)
{
    std::string last;
    Value* parent = parent_of(document, path, last);
    if (parent == nullptr)
        return false;
    if (parent->type == Type::Object) {
        parent->members[last] = std::move(value);
        return true;
    }
    std::size_t index = parent->items.size();
    if (parent->type != Type::Array || (last != "-" && (!to_index(last, index) || index > parent->items.size())))
        return false;
    parent->items.insert(parent->items.begin() + static_cast<std::ptrdiff_t>(index), std::move(value));
    return true;
}

bool Patch::remove(Value& document, const std::string& path)
{
    std::string last;
    Value* parent = parent_of(document, path, last);
    if (parent == nullptr)
        return false;
    if (parent->type == Type::Object)
        return parent->members.erase(last) > 0;
    std::size_t index;
    if (parent->type != Type::Array || !to_index(last, index) || index >= parent->items.size())
        return false;
    parent->items.erase(parent->items.begin() + static_cast<std::ptrdiff_t>(index));
    return true;
}

bool Patch::replace(Value& document, const Operation& operation)
{
    Value* target = resolve(document, operation.path);
    if (target == nullptr)
        return false;
    *target = operation.value;
    return true;
}

bool Patch::copy(Value& document, const Operation& operation)
{
    const Value* source = resolve(document, operation.from);
    return source != nullptr && add(document, operation.path, *source);
}

bool Patch::move(Value& document, const Operation& operation, PatchReport& report)
{
    Value* source = resolve(document, operation.from); // @source
    if (source->type == Type::Null) // @fail
        return false;
    report.moved_nodes += count_nodes(*source);
    Value moved = std::move(*source);
    return remove(document, operation.from) && add(document, operation.path, std::move(moved));
}

bool Patch::test(Value& document, const Operation& operation)
{
    const Value* value = resolve(document, operation.path);
    return value != nullptr && *value == operation.value;
}

void Patch::apply(Value& document, PatchReport& report) const
{
    for (const Operation& operation : operations_) {
        bool done = false;
        if (operation.op == "add")
            done = add(document, operation.path, operation.value);
        else if (operation.op == "remove")
            done = remove(document, operation.path);
        else if (operation.op == "replace")
            done = replace(document, operation);
        else if (operation.op == "copy")
            done = copy(document, operation);
        else if (operation.op == "move")
            done = move(document, operation, report); // @move
        else if (operation.op == "test")
            done = test(document, operation);
        (done ? report.applied : report.refused)++;
    }
}
