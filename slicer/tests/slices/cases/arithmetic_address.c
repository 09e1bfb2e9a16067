#include <stdlib.h>
__attribute__((noinline)) int at_fifth(const int *table, long step, long noise) {
    long place = step * 5; // in
    return table[place]; // from
}
int main(int argc, char **argv) {
    int table[4] = {1, 2, 3, 4}; // maybe
    long noise = atol(argv[2]); // out
    long step = atol(argv[1]); // in
    return at_fifth(table, step, noise); // in
}
