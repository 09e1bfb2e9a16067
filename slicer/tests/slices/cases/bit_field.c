#include <stdlib.h>
struct flags { unsigned ready : 1; unsigned index : 11; unsigned mode : 4; };
__attribute__((noinline)) int use(struct flags *f, const int *table, int index) {
    f->index = index; // in at -O0
    f->mode = 3; // maybe
    return table[f->index]; // from
}
int main(int argc, char **argv) {
    struct flags f = {1, 0, 0}; // maybe
    int table[2] = {1, 2}; // maybe
    int noise = atoi(argv[2]); // out
    int index = atoi(argv[1]); // in
    return use(&f, table, index) + noise; // in
}
