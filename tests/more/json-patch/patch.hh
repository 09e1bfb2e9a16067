#pragma once

#include "json.hh"

struct Operation {
    std::string op;
    std::string path;
    std::string from;
    Value value;
};

struct PatchReport {
    unsigned applied = 0;
    unsigned refused = 0;
    std::size_t moved_nodes = 0;
};

// Changes to a document, one after the other; what cannot be done is counted and left out.
class Patch {
public:
    static Patch parse(std::string_view text);

    void apply(Value& document, PatchReport& report) const;
    std::size_t size() const { return operations_.size(); }

private:
    static bool add(Value& document, const std::string& path, Value value);
    static bool remove(Value& document, const std::string& path);
    static bool replace(Value& document, const Operation& operation);
    static bool copy(Value& document, const Operation& operation);
    static bool move(Value& document, const Operation& operation, PatchReport& report);
    static bool test(Value& document, const Operation& operation);

    std::vector<Operation> operations_;
};

// The value at a path such as /items/3/name, or nullptr.
Value* resolve(Value& document, std::string_view path);
