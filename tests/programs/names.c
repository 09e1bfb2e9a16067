/* Variables with all kinds of names, each written once by the line that its mark names. Says `ready`, then starts
 * when standard input has a byte or ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct inner {
    short low;
    uint32_t deep;
};

struct outer {
    char tag;
    struct inner inner;
    double share;
    int list[4];
};

int plain_global = 1;
struct outer outer;
struct outer *pointed;
unsigned char *bytes;
enum state { IDLE, BUSY = 5 } state;
__thread int of_a_thread;
long wide[9];
static int own = 7;

static void set(void) {
    plain_global = 1234; /* @plain */
    outer.inner.deep = 77; /* @deep */
    outer.share = 2.5; /* @share */
    outer.list[2] = -4; /* @element */
    pointed = malloc(sizeof *pointed); /* @pointer */
    pointed->inner.deep = 99; /* @through */
    bytes = malloc(8); /* @bytes */
    bytes[0] = 200; /* @byte */
    state = BUSY; /* @state */
    own = 8; /* @own */
    of_a_thread = 3;
    wide[8] = 1;
}

int main(void) {
    char byte;
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    set();
    return outer.inner.deep == 77 && own == 8 ? 3 : 4;
}
