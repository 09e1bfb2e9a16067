#include <stdlib.h>
__attribute__((noinline)) int work(int n) { return n * 3; } // out
__attribute__((noinline)) int use(int *at, int a, int b) {
    int x = work(a); // out
    int y = work(b) + x; // out
    int z = work(y); // out
    int value = *at; // from
    return value + z; // out
}
int main(int argc, char **argv) {
    int *at = (int *)atol(argv[1]); // in
    int first = work(argc); // out
    return use(at, first, 3); // in
}
