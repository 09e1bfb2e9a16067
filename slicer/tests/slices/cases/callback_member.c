/* A callback that an object remembers: calls of the member that it was stored to are its callers. */
#include <stdlib.h>

struct timer {
    long when;
    void (*expired)(struct timer *, int *);
    void (*stopped)(struct timer *);
};

static void on_time(struct timer *timer, int *cell)
{
    *cell = 1; // from
}

static void on_stop(struct timer *timer)
{
    timer->when = 0; // out
}

__attribute__((noinline)) void set(struct timer *timer)
{
    timer->expired = on_time; // in
    timer->stopped = on_stop; // out
}

__attribute__((noinline)) void fire(struct timer *timer, int *cell)
{
    if (timer->when) // in
        timer->expired(timer, cell); // in
}

__attribute__((noinline)) void stop(struct timer *timer)
{
    timer->stopped(timer); // out
}

int main(int count, char **words)
{
    struct timer *timer = calloc(1, sizeof *timer); // maybe
    timer->when = count; // maybe
    set(timer); // in
    int *cell = count > 2 ? calloc(1, 4) : NULL; // in
    fire(timer, cell); // in
    stop(timer); // out
    return 0; // out
}
