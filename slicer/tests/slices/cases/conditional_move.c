#include <stdlib.h>
__attribute__((noinline)) int choose(const int *table, int a, int b, int flag) {
    int x = a * 3; // in
    int y = b * 5; // in
    int chosen = flag > 10 ? x : y; // in
    return table[chosen]; // from
}
int main(int argc, char **argv) {
    int table[4] = {1, 2, 3, 4}; // maybe
    int flag = atoi(argv[1]); // in
    return choose(table, argc, argc + 1, flag); // in
}
