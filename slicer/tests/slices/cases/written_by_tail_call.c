#include <stdlib.h>

struct box {
    int *value;
    int count;
};

int spare = 3;
int calls;

__attribute__((noinline)) static void fill(struct box *box, int count)
{
    box->count = count; // out at -O0
    box->value = count > 3 ? &spare : NULL; // in
}

__attribute__((noinline)) static void relay(struct box *box, int count)
{
    calls++; // out
    fill(box, count + 1); // in
}

__attribute__((noinline)) static void prepare(struct box *box, int count)
{
    calls += 2; // out
    relay(box, count * 2); // in
}

__attribute__((noinline)) static int look(const struct box *box, int count)
{
    return box->count + count; // out
}

__attribute__((noinline)) static int inspect(const struct box *box, int count)
{
    calls += 3; // out
    return look(box, count); // maybe
}

int main(int argc, char **argv)
{
    struct box box;
    prepare(&box, argc); // in
    inspect(&box, argc); // maybe
    return *box.value; // from
}
