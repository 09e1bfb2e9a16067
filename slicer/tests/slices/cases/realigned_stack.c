#include <stdlib.h>
typedef float wide __attribute__((vector_size(64)));
__attribute__((noinline)) void fill(wide *w, int x) { (*w)[0] = x; } // out
__attribute__((noinline)) int use(int *at, int x) {
    wide w __attribute__((aligned(64)));
    int *kept = at + x; // in
    fill(&w, x); // out
    float back = w[0]; // out
    int value = *kept; // from
    return value + (int)back; // out
}
int main(int argc, char **argv) {
    int *at = (int *)atol(argv[1]); // in
    return use(at, argc); // in
}
