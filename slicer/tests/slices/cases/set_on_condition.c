#include <stdlib.h>
__attribute__((noinline)) int truth(const int *table, int a, int b, int c) {
    int is = a < c; // in
    int sum = is * 1000; // in
    return table[sum]; // from
}
int main(int argc, char **argv) {
    int table[4] = {1, 2, 3, 4}; // maybe
    int c = atoi(argv[1]); // in
    return truth(table, argc, 3, c); // in
}
