#include <stdlib.h>
__attribute__((noinline)) int *route(int kind, int *a, int *b, int *c) {
    int *to = 0; // maybe
    switch (kind) { // in
    case 0: to = a; break; // maybe
    case 1: to = b + 4; break; // in
    case 2: to = c + 9; break; // in
    case 3: to = a + 1; break; // in
    case 4: to = b - 3; break; // in
    case 5: to = c + 7; break; // in
    }
    return to; // maybe
}
__attribute__((noinline)) int deref(int *at) {
    return *at; // from
}
int main(int argc, char **argv) {
    int a[2] = {1}, b[2] = {2}, c[2] = {3};
    int kind = atoi(argv[1]); // in
    return deref(route(kind, a, b, c)); // in
}
