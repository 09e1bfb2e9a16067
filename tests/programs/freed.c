/* Reads memory that it has given back: a report of AddressSanitizer. */
#include <stdlib.h>

#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noipa))
#endif

struct message {
    int length;
    char text[28];
};

KEEP static int length_of(const struct message *m) {
    return m->length + 1; /* @fail */
}

KEEP static int send(struct message *m) {
    free(m);
    return length_of(m) - 1;
}

int main(void) {
    struct message *m = calloc(1, sizeof *m);
    return send(m);
}
