// Ends by an exception that nobody catches, in the way that its argument names.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace shop {
struct OutOfStock : std::runtime_error {
    using std::runtime_error::runtime_error;
    int missing = 3;
};
struct Plain {
    int code = 7;
};
struct Other {
    int x = 1;
};
struct Two : Other, std::logic_error {
    Two() : std::logic_error("two bases") {}
};
}

static void silent() noexcept { throw std::out_of_range("no such shelf"); }

static void handled_before() {
    try {
        throw std::runtime_error("handled");
    } catch (const std::exception&) {
    }
}

int main(int, char** arguments) {
    const char* how = arguments[1];
    handled_before();
    if (!std::strcmp(how, "derived")) throw shop::OutOfStock("none left of " + std::to_string(12));
    if (!std::strcmp(how, "plain")) throw shop::Plain();
    if (!std::strcmp(how, "number")) throw 5;
    if (!std::strcmp(how, "two")) throw shop::Two();
    if (!std::strcmp(how, "noexcept")) silent();
    if (!std::strcmp(how, "thread")) {
        std::thread([] { throw std::logic_error("in a thread"); }).join();
    }
    if (!std::strcmp(how, "rethrown")) {
        try {
            throw std::invalid_argument("twice");
        } catch (...) {
            std::rethrow_exception(std::current_exception());
        }
    }
    try {
        throw std::runtime_error("being handled");
    } catch (const std::exception&) {
        std::abort();
    }
}
