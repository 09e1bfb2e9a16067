#pragma once

#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

enum class Type { Null, Bool, Number, String, Array, Object };

struct Value {
    Type type = Type::Null;
    bool truth = false;
    double number = 0;
    std::string text;
    std::vector<Value> items;
    std::map<std::string, Value> members;

    bool is_container() const { return type == Type::Array || type == Type::Object; }
    bool operator==(const Value& other) const;
};

class ParseError : public std::runtime_error {
public:
    ParseError(const char* what, std::size_t at)
        : std::runtime_error(std::string(what) + " at " + std::to_string(at))
    {
    }
};

Value parse_json(std::string_view text);
void write_json(const Value& value, std::string& out);
std::size_t count_nodes(const Value& value);
