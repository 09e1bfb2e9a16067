#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

enum class Method { Get, Head, Post, Delete, Options };

const char* name_of(Method method);
Method method_of(std::string_view word);

// The named parts of a path, such as `id` in /users/:id.
class Params {
public:
    void set(std::string name, std::string value);
    const std::string& get(const std::string& name) const;
    bool empty() const { return values_.empty(); }
    std::size_t size() const { return values_.size(); }

private:
    std::map<std::string, std::string> values_;
};

struct Request {
    Method method = Method::Get;
    std::vector<std::string> segments;
    std::map<std::string, std::string> query;
    std::string target;
};

struct Response {
    int status = 200;
    std::string body;
    std::map<std::string, std::string> headers;
};

// "GET /users/7?full=1" as a request.
Request parse_request(std::string_view line);
std::vector<std::string> split_path(std::string_view path);
