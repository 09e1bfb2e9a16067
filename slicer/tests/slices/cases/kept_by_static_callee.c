#include <stdlib.h>
static int seen;
__attribute__((noinline)) static void count(int x) { seen += x; } // out
__attribute__((noinline)) int use(int a, int b, int *at) {
    count(a); // out
    return at[b]; // from
}
int main(int argc, char **argv) {
    int *at = (int *)atol(argv[1]); // in
    int b = atoi(argv[2]); // in
    return use(argc, b, at) + seen; // in
}
