#include <stdlib.h>
static __thread int *current;
static __thread long noise;
__attribute__((noinline)) void enter(int *at) {
    current = at; // in
}
__attribute__((noinline)) void count(long by) {
    noise += by; // out
}
__attribute__((noinline)) int use(void) {
    return *current; // from
}
int main(int argc, char **argv) {
    int *at = (int *)atol(argv[1]); // in
    count(argc); // out
    enter(at); // in
    return use(); // in
}
