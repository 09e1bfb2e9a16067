#include <stdlib.h>
struct pair { int *first; long second; };
struct large { long a, b, c; int *where; };
__attribute__((noinline)) struct pair two(long x) {
    struct pair p;
    p.first = (int *)(x * 16); // in
    p.second = x + 1; // out
    return p; // maybe
}
__attribute__((noinline)) int deref(int *at) {
    return *at; // from
}
int main(int argc, char **argv) {
    struct pair p = two(argc); // in
    long kept = p.second * 3; // out
    return deref(p.first) + (int)kept; // in
}
