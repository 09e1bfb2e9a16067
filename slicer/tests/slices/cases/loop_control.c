#include <stdlib.h>
#include <assert.h>
__attribute__((noinline)) int total(const int *list, int n, int *extra) {
    int sum = 0; // in
    for (int i = 0; i < n; i++) { // in
        sum += list[i]; // in
        *extra += i; // out at -O0
    }
    return sum; // maybe
}
int main(int argc, char **argv) {
    int list[3] = {1, 2, 3}; // maybe
    int extra = 0; // out
    int n = atoi(argv[1]); // in
    int sum = total(list, n, &extra); // in
    if (sum > 3) // in
        abort(); // from
    return extra; // out
}
