#include <stdarg.h>
#include <stdlib.h>
__attribute__((noinline)) int sum(int n, ...) {
    va_list list;
    va_start(list, n); // maybe
    int *at = va_arg(list, int *); // in
    va_end(list);
    return *at; // from
}
int main(int argc, char **argv) {
    int noise = atoi(argv[2]); // out
    int *at = (int *)atol(argv[1]); // maybe
    return sum(1, at) + noise; // in
}
