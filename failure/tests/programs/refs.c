// An item with a count and flags, and functions that assert something of either.
#define _GNU_SOURCE
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KEEP __attribute__((noinline, noclone))

struct item {
    struct item *next;
    unsigned short refs;
    unsigned char flags;
};

KEEP static void take(struct item *it) {
    assert(it->refs > 0);
    it->refs++;
}

KEEP static void put(struct item *it) {
    assert(it->refs != 0);
    it->refs--;
}

KEEP static void mark(struct item *it) {
    assert((it->flags & 4) == 0 && "marked");
    it->flags |= 4;
}

KEEP static void serve(struct item *it, const char *how) {
    if (strcmp(how, "take") == 0)
        take(it);
    if (strcmp(how, "put") == 0)
        put(it);
    if (strcmp(how, "mark") == 0)
        mark(it);
    it->next = NULL;
}

int main(int argc, char **argv) {
    struct item *it = calloc(1, sizeof *it);
    it->flags = 4;
    for (int i = 1; i < argc; i++)
        serve(it, argv[i]);
    return it->next != NULL;
}
