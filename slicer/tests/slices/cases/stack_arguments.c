#include <stdlib.h>
__attribute__((noinline)) int ninth(int a, int b, int c, int d, int e, int f, int g, int *h, int i) {
    int rest = a + b + c + d + e + f + g + i; // out
    int value = *h; // from
    return value + rest; // out
}
int main(int argc, char **argv) {
    int noise = atoi(argv[2]); // out
    int *at = (int *)atol(argv[1]); // in
    return ninth(1, 2, 3, 4, 5, 6, noise, at, noise); // in
}
