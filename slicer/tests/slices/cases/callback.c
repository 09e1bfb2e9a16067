/* A function that is handed on as an argument: whoever calls the argument calls it. */
#include <stdlib.h>

struct list {
    int *value;
    struct list *next;
};

static int read_value(struct list *item)
{
    return *item->value; // from
}

__attribute__((noinline)) static int each(struct list *item, int (*visit)(struct list *))
{
    int sum = 0; // out
    for (; item; item = item->next) // maybe
        sum += visit(item); // in at -O0
    return sum; // out
}

__attribute__((noinline)) static int outer(struct list *item, int (*visit)(struct list *))
{
    return each(item, visit) + 1; // in
}

int main(int count, char **words)
{
    struct list *first = calloc(1, sizeof *first); // in
    return outer(first, read_value); // in
}
