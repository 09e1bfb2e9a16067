#include "router.hh"

#include <cstdio>

void Router::add(Method method, std::string_view pattern, Handler handler)
{
    Node* node = &root_;
    for (const std::string& segment : split_path(pattern)) {
        if (segment == "*") {
            node->takes_rest = true;
            break;
        }
        if (segment.front() == ':') {
            if (!node->param) {
                node->param = std::make_unique<Node>();
                node->param_name = segment.substr(1);
            }
            node = node->param.get();
            continue;
        }
        std::unique_ptr<Node>& child = node->words[segment];
        if (!child)
            child = std::make_unique<Node>();
        node = child.get();
    }
    node->handlers[method] = std::move(handler);
}

// Words go before parameters, and parameters before the star.
bool Router::walk(const Node& node, const Request& request, std::size_t at, Match& match)
{
    if (at == request.segments.size()) {
        match.node = &node;
        return !node.handlers.empty();
    }

    const std::string& segment = request.segments[at];
    auto word = node.words.find(segment);
    if (word != node.words.end() && walk(*word->second, request, at + 1, match))
        return true;

    if (node.param) {
        match.captured.emplace_back(node.param_name, segment);
        if (walk(*node.param, request, at + 1, match))
            return true;
        match.captured.pop_back();
    }

    if (node.takes_rest) {
        match.node = &node;
        return true;
    }
    return false;
}

// Only what a handler will ask for is copied.
Params Router::params_of(const Request& request, const Match& match)
{
    Params params;
    if (request.method == Method::Options || request.method == Method::Head) // @bodiless
        return params;
    for (const auto& [name, value] : match.captured)
        params.set(name, value);
    return params;
}

// HEAD is GET without the body.
const Handler* Router::handler_of(const Node& node, Method method)
{
    auto found = node.handlers.find(method == Method::Head ? Method::Get : method);
    return found == node.handlers.end() ? nullptr : &found->second;
}

Response Router::options_of(const Node& node)
{
    Response response;
    std::string allowed;
    for (const auto& [method, handler] : node.handlers) {
        if (!allowed.empty())
            allowed += ", ";
        allowed += name_of(method);
    }
    response.status = 204;
    response.headers["Allow"] = allowed;
    return response;
}

Response Router::dispatch(const Request& request) const
{
    Match match;
    if (!walk(root_, request, 0, match))
        return {404, "no such page", {}};
    Params params = params_of(request, match); // @params

    if (request.method == Method::Options)
        return options_of(*match.node);

    const Handler* handler = handler_of(*match.node, request.method);
    if (handler == nullptr)
        return {405, "not for this page", {}};
    Response response = (*handler)(request, params); // @handle
    response.headers["Content-Length"] = std::to_string(response.body.size());
    if (request.method == Method::Head)
        response.body.clear();
    return response;
}

void Router::print(std::size_t limit) const
{
    std::size_t left = limit;
    print_node(root_, "", left);
}

void Router::print_node(const Node& node, const std::string& path, std::size_t& left)
{
    for (const auto& [method, handler] : node.handlers) {
        if (left == 0)
            return;
        left--;
        std::printf("%-7s %s%s\n", name_of(method), path.c_str(), node.takes_rest ? "/*" : "");
    }
    for (const auto& [word, child] : node.words)
        print_node(*child, path + "/" + word, left);
    if (node.param)
        print_node(*node.param, path + "/:" + node.param_name, left);
}
