#include <cstdlib>
#include <vector>
struct Item { int *data; int count; };
__attribute__((noinline)) void reset(Item &item, long to) {
    item.data = (int *)to; // in at -O0
    item.count = 0; // out
}
__attribute__((noinline)) int read(const Item &item) {
    return *item.data; // from
}
int main(int argc, char **argv) {
    Item item{nullptr, argc}; // maybe
    long to = std::atol(argv[1]); // in at -O0
    reset(item, to); // in
    return read(item); // in
}
