#include <stdlib.h>
struct node { struct node *next; int value; };
__attribute__((noinline)) int nth(struct node *head, int n, int *log) {
    struct node *at = head; // maybe
    int i = 0; // in
    while (i < n) { // in
        *log = i; // out
        at = at->next; // in
        i++; // in
    }
    return at->value; // from
}
int main(int argc, char **argv) {
    struct node b = {0, 2}; // out
    struct node a = {&b, 1}; // maybe
    int log = 0; // out
    int n = atoi(argv[1]); // in
    int result = nth(&a, n, &log); // in
    return result + log; // out
}
