#include <stdlib.h>
__attribute__((noinline)) double scale(double by, int unused) {
    double twice = by * 2.0; // in
    return twice; // maybe
}
__attribute__((noinline)) int pick(const int *table, double ratio, int other) {
    double place = ratio * 100.0; // in
    int index = (int)place; // in
    return table[index]; // from
}
int main(int argc, char **argv) {
    int table[4] = {1, 2, 3, 4}; // maybe
    int other = atoi(argv[0]) + 7; // out
    double ratio = argc / 3.0; // in
    double wide = scale(ratio, other); // in
    return pick(table, wide, other); // in
}
