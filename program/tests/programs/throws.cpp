#include <cstdio>
#include <stdexcept>
#include <string>

namespace jobs {

struct Guard {
    ~Guard() { std::puts("left"); }
};

__attribute__((noinline)) int parse(const std::string &text) {
    if (text.empty()) throw std::invalid_argument("empty");
    return text[0];
}

__attribute__((noinline)) int guarded(const std::string &text) {
    Guard guard;
    try {
        return parse(text) + parse(text + "x");
    } catch (const std::exception &problem) {
        std::puts(problem.what());
        return -1;
    }
}

}  // namespace jobs

int main(int argc, char **argv) { return jobs::guarded(argv[argc - 1]); }
