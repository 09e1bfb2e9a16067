#include <stdlib.h>
struct pair { long second; int *first; };
__attribute__((noinline)) struct pair two(long x) {
    struct pair p;
    p.second = x + 1; // out
    p.first = (int *)(x * 16); // in
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
