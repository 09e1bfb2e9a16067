#include <stdlib.h>
struct job { int *data; long pad[9]; int size; };
__attribute__((noinline)) void touch(long *x) { *x += 1; }
__attribute__((noinline)) int use(struct job job) {
    return *job.data; // from
}
int main(int argc, char **argv) {
    long other = argc; // out
    touch(&other); // out
    struct job job = {0}; // maybe
    job.size = 9;
    job.data = (int *)(long)atoi(argv[1]); // in
    struct job copy = job; // maybe
    return use(copy) + (int)other; // in
}
