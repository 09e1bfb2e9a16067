// Variables of namespaces and classes, each written once by the line that its mark names.
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace shop {
int stock = 1;
namespace {
int hidden = 2;
}
struct Till {
    static long total;
    std::atomic<int> open{0};
};
long Till::total = 3;
Till till;
}  // namespace shop

int main() {
    char byte;
    std::puts("ready"), std::fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    shop::stock = 41;       // @stock
    shop::hidden = 42;      // @hidden
    shop::Till::total = 43; // @total
    shop::till.open = 44;   // @open
    return shop::hidden == 42 ? 3 : 4;
}
