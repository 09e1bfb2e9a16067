#pragma once

#include "http.hh"

#include <functional>
#include <memory>

using Handler = std::function<Response(const Request&, const Params&)>;

// Routes as a trie of segments. A segment is a word, a parameter (`:id`) or,
// at the end, a star that takes all the rest.
class Router {
public:
    void add(Method method, std::string_view pattern, Handler handler);
    Response dispatch(const Request& request) const;
    void print(std::size_t limit) const;

private:
    struct Node {
        std::map<std::string, std::unique_ptr<Node>> words;
        std::unique_ptr<Node> param;
        std::string param_name;
        bool takes_rest = false;
        std::map<Method, Handler> handlers;
    };

    // What a walk down the trie has found: the node, and what stood for its parameters.
    struct Match {
        const Node* node = nullptr;
        std::vector<std::pair<std::string, std::string>> captured;
    };

    static bool walk(const Node& node, const Request& request, std::size_t at, Match& match);
    static Params params_of(const Request& request, const Match& match);
    static const Handler* handler_of(const Node& node, Method method);
    static Response options_of(const Node& node);
    static void print_node(const Node& node, const std::string& path, std::size_t& left);

    Node root_;
};
