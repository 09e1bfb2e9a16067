#include "http.hh"

#include <stdexcept>

static constexpr struct {
    Method method;
    const char* word;
} METHODS[] = {
    {Method::Get, "GET"},       {Method::Head, "HEAD"},       {Method::Post, "POST"},
    {Method::Delete, "DELETE"}, {Method::Options, "OPTIONS"},
};

const char* name_of(Method method)
{
    for (const auto& known : METHODS)
        if (known.method == method)
            return known.word;
    return "?";
}

Method method_of(std::string_view word)
{
    for (const auto& known : METHODS)
        if (word == known.word)
            return known.method;
    throw std::invalid_argument("no such method: " + std::string(word));
}

void Params::set(std::string name, std::string value)
{
    values_.insert_or_assign(std::move(name), std::move(value));
}

const std::string& Params::get(const std::string& name) const
{
    auto found = values_.find(name);
    if (found == values_.end()) // @missing
        throw std::out_of_range("no such parameter"); // @fail
    return found->second;
}

std::vector<std::string> split_path(std::string_view path)
{
    std::vector<std::string> segments;
    while (!path.empty()) {
        if (path.front() == '/') {
            path.remove_prefix(1);
            continue;
        }
        std::size_t length = path.find('/');
        if (length == std::string_view::npos)
            length = path.size();
        segments.emplace_back(path.substr(0, length));
        path.remove_prefix(length);
    }
    return segments;
}

static void parse_query(std::string_view text, std::map<std::string, std::string>& query)
{
    while (!text.empty()) {
        std::size_t length = text.find('&');
        if (length == std::string_view::npos)
            length = text.size();
        std::string_view pair = text.substr(0, length);
        std::size_t equals = pair.find('=');
        if (equals == std::string_view::npos)
            query[std::string(pair)] = "";
        else
            query[std::string(pair.substr(0, equals))] = std::string(pair.substr(equals + 1));
        text.remove_prefix(length < text.size() ? length + 1 : length);
    }
}

Request parse_request(std::string_view line)
{
    std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos)
        throw std::invalid_argument("not a request: " + std::string(line));

    Request request;
    request.method = method_of(line.substr(0, blank));
    request.target = std::string(line.substr(blank + 1));

    std::string_view target = request.target;
    std::size_t question = target.find('?');
    if (question != std::string_view::npos) {
        parse_query(target.substr(question + 1), request.query);
        target = target.substr(0, question);
    }
    request.segments = split_path(target);
    return request;
}
