#include <stdlib.h>
#include <stdatomic.h>
static _Atomic(int *) shared;
static _Atomic long counter;
__attribute__((noinline)) void publish(int *at) {
    int *none = 0; // maybe
    atomic_compare_exchange_strong(&shared, &none, at); // in
}
__attribute__((noinline)) void count(long by) {
    atomic_fetch_add(&counter, by); // out
}
__attribute__((noinline)) int use(void) {
    int *taken = atomic_exchange(&shared, 0); // in
    return *taken; // from
}
int main(int argc, char **argv) {
    int *at = (int *)atol(argv[1]); // in
    count(argc); // out
    publish(at); // in
    return use(); // in
}
