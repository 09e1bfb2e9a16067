// Variables of namespaces, classes and templates, each written once by the line that its mark names.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

namespace shop {
int stock = 1;
namespace {
volatile int hidden = 2;
struct Shelf {
    int width, height;
} shelf;
}  // namespace
struct Till {
    static long total;
    static inline int drawers = 4;
    std::atomic<int> open{0};
};
long Till::total = 3;
Till till;
template <class Key, int size> struct Table {
    static Key first;
};
template <class Key, int size> Key Table<Key, size>::first{};
template <class Kind> Kind spare{};
int only(const char *) { return 0; }
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
    shop::Till::drawers = 45; // @drawers
    __asm__ volatile("" ::"r"(&shop::shelf) : "memory");
    shop::shelf.height = 46; // @height
    __asm__ volatile("" ::"r"(&shop::shelf) : "memory");
    shop::Table<int, 4>::first = 47; // @int-table
    shop::Table<std::pair<int, int>, 2>::first.second = 48; // @pair-table
    shop::Table<int (*)(const char *), 1>::first = shop::only; // @function-table
    shop::spare<std::pair<long, long>>.first = 49; // @spare
    return shop::hidden == 42 ? 3 : 4;
}
