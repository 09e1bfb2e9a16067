#include <math.h>
#include <stdlib.h>
double left, right;
__attribute__((noinline)) int columns(int other) {
    double wide = right - left; // in
    double count = ldexp(wide / 30.0, other); // in
    return 100 / (int)count; // from
}
int main(int argc, char **argv) {
    int other = argc + 7; // maybe
    right = atof(argv[0]); // in
    left = argc; // in
    return columns(other); // in
}
