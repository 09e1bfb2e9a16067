/* Walks a list that ends in a wild pointer: a small program with types, inlined functions and a switch. */
#include <stdio.h>
#include <stdlib.h>

enum kind { ADD, SUBTRACT, KEEP, CLEAR };

struct item {
    struct item *next;
    enum kind kind;
    int amount;
};

static struct item *first;
static int total;

static inline void apply(const struct item *item) {
    switch (item->kind) { /* @fail */
    case ADD: total += item->amount; break;
    case SUBTRACT: total -= item->amount; break;
    case CLEAR: total = 0; break;
    case KEEP: break;
    }
}

__attribute__((noinline)) static void push(enum kind kind, int amount) {
    struct item *item = malloc(sizeof *item);
    *item = (struct item){first, kind, amount};
    first = item;
}

__attribute__((noinline)) static int sum(int most) {
    int count = 0;
    for (struct item *item = first; count < most; item = item->next, count++)
        apply(item);
    return total;
}

int main(int argc, char **argv) {
    (void)argv;
    for (int i = 0; i < 4; i++)
        push((enum kind)(i % 4), i * argc);
    printf("%d\n", sum(100));
}
