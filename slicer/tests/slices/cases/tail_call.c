#include <stdlib.h>
__attribute__((noinline)) int deref(int *at, int unused) {
    return *at; // from
}
__attribute__((noinline)) int forward(long x, int noise) {
    int extra = noise * 3; // out
    int *at = (int *)(x << 4); // in
    return deref(at, extra); // in
}
int main(int argc, char **argv) {
    int noise = atoi(argv[2]); // out
    long x = atol(argv[1]); // in
    return forward(x, noise); // in
}
