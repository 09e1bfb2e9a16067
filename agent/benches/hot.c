/* Touches a variable a hundred thousand times a second, with work in between. For each line that it reads, a number of
   seconds, it works for about as long and says how much processor time a touch took, in microseconds: time that others have
   the processor does not count, and time in traps does. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

volatile uint64_t counter;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t work(uint64_t value, long steps)
{
    for (long step = 0; step < steps; step++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    return value;
}

int main(void)
{
    /* As many steps as take ten microseconds here. */
    uint64_t value = 1;
    double seconds, before = now();
    value = work(value, 50000000);
    long steps = (long)(50000000 * 10e-6 / (now() - before));
    puts("ready");
    fflush(stdout);
    while (scanf("%lf", &seconds) == 1) {
        long touches = (long)(seconds * 1e5);
        before = now();
        for (long touch = 0; touch < touches; touch++) {
            counter = value;
            value = work(value, steps);
        }
        printf("%f\n", (now() - before) / (double)touches * 1e6);
        fflush(stdout);
    }
    return (int)(value & 1);
}
