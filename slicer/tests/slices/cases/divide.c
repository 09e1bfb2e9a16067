#include <stdlib.h>
__attribute__((noinline)) long spread(long total, long parts, long noise) {
    long each = parts - 2; // in
    long more = noise * 5; // out
    long share = total / each; // from
    return share + more; // out
}
int main(int argc, char **argv) {
    long parts = atol(argv[1]); // in
    long noise = atol(argv[2]); // out
    return (int)spread(argc, parts, noise); // in
}
