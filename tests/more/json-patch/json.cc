#include "json.hh"

#include <cctype>
#include <charconv>
#include <cstdio>

bool Value::operator==(const Value& other) const
{
    if (type != other.type)
        return false;
    switch (type) {
    case Type::Null:
        return true;
    case Type::Bool:
        return truth == other.truth;
    case Type::Number:
        return number == other.number;
    case Type::String:
        return text == other.text;
    case Type::Array:
        return items == other.items;
    case Type::Object:
        return members == other.members;
    }
    return false;
}

namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Value document()
    {
        Value value = element();
        skip();
        if (at_ != text_.size())
            throw ParseError("more than one value", at_);
        return value;
    }

private:
    void skip()
    {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])))
            at_++;
    }

    char peek()
    {
        skip();
        if (at_ == text_.size())
            throw ParseError("end of text", at_);
        return text_[at_];
    }

    void expect(char c)
    {
        if (peek() != c)
            throw ParseError("something else expected", at_);
        at_++;
    }

    bool take(char c)
    {
        if (peek() != c)
            return false;
        at_++;
        return true;
    }

    bool take_word(std::string_view word)
    {
        if (text_.substr(at_, word.size()) != word)
            return false;
        at_ += word.size();
        return true;
    }

    Value element()
    {
        Value value;
        switch (peek()) {
        case '{':
            object(value);
            break;
        case '[':
            array(value);
            break;
        case '"':
            value.type = Type::String;
            value.text = string();
            break;
        default:
            scalar(value);
        }
        return value;
    }

    void object(Value& value)
    {
        value.type = Type::Object;
        expect('{');
        if (take('}'))
            return;
        do {
            std::string name = (peek(), string());
            expect(':');
            value.members[name] = element();
        } while (take(','));
        expect('}');
    }

    void array(Value& value)
    {
        value.type = Type::Array;
        expect('[');
        if (take(']'))
            return;
        do
            value.items.push_back(element());
        while (take(','));
        expect(']');
    }

    std::string string()
    {
        std::string text;
        expect('"');
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\')
                at_++;
            if (at_ < text_.size())
                text += text_[at_++];
        }
        expect('"');
        return text;
    }

    void scalar(Value& value)
    {
        if (take_word("null"))
            return;
        if (take_word("true") || take_word("false")) {
            value.type = Type::Bool;
            value.truth = text_[at_ - 2] == 'u';
            return;
        }
        auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value.number);
        if (error != std::errc())
            throw ParseError("not a value", at_);
        at_ = static_cast<std::size_t>(end - text_.data());
        value.type = Type::Number;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

void write_string(const std::string& text, std::string& out)
{
    out += '"';
    for (char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        out += c;
    }
    out += '"';
}

} // namespace

Value parse_json(std::string_view text)
{
    return Parser(text).document();
}

void write_json(const Value& value, std::string& out)
{
    char number[32];
    bool first = true;
    switch (value.type) {
    case Type::Null:
        out += "null";
        break;
    case Type::Bool:
        out += value.truth ? "true" : "false";
        break;
    case Type::Number:
        std::snprintf(number, sizeof number, "%.10g", value.number);
        out += number;
        break;
    case Type::String:
        write_string(value.text, out);
        break;
    case Type::Array:
        out += '[';
        for (const Value& item : value.items) {
            if (!first)
                out += ',';
            first = false;
            write_json(item, out);
        }
        out += ']';
        break;
    case Type::Object:
        out += '{';
        for (const auto& [name, member] : value.members) {
            if (!first)
                out += ',';
            first = false;
            write_string(name, out);
            out += ':';
            write_json(member, out);
        }
        out += '}';
        break;
    }
}

std::size_t count_nodes(const Value& value)
{
    std::size_t count = 1;
    for (const Value& item : value.items)
        count += count_nodes(item);
    for (const auto& [name, member] : value.members)
        count += count_nodes(member);
    return count;
}
