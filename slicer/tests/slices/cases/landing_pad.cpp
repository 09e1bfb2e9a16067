#include <cstdlib>
#include <stdexcept>
#include <string>
__attribute__((noinline)) int risky(int x) {
    if (x > 2) throw std::runtime_error("too large"); // maybe
    return x * 2;
}
__attribute__((noinline)) int use(long key, int x) {
    std::string name = "object"; // maybe
    int *at = (int *)(key * 8); // in
    try {
        risky(x); // maybe
    } catch (const std::runtime_error &error) { // maybe
        return *at; // from
    }
    return (int)name.size(); // out
}
int main(int argc, char **argv) {
    long key = std::atol(argv[1]); // in
    return use(key, argc); // in
}
