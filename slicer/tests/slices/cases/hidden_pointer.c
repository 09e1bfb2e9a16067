#include <stdlib.h>
struct large { long a, b, c; int *where; };
__attribute__((noinline)) struct large many(long x) {
    struct large l;
    l.a = x - 1; // out
    l.b = x; // out
    l.c = x; // out
    l.where = (int *)(x * 16); // in
    return l; // maybe
}
__attribute__((noinline)) int deref(int *at) {
    return *at; // from
}
int main(int argc, char **argv) {
    struct large l = many(argc); // in
    long kept = l.b * 3; // out
    return deref(l.where) + (int)kept; // in
}
