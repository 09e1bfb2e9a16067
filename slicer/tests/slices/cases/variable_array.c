#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int use(int n, int at, int noise) {
    int list[n]; // in
    memset(list, 0, sizeof list); // maybe
    list[0] = noise; // maybe
    int where = at * 7; // in
    return *(int *)(long)(list[n - 1] + where); // from
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]); // in
    int at = atoi(argv[2]); // in
    return use(n, at, 3); // in
}
