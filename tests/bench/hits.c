/* A loop that computes and a loop that writes one variable, each timed: `hits COMPUTED WRITTEN`. Says `ready` with
 * the variable's address and starts when standard input has a byte or ends; then prints the nanoseconds of both, by
 * the clock and on a processor. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

volatile long shared, untouched;

static volatile long beside;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void compute(long times) {
    for (long time = 0; time < times; time++)
        beside = beside * 31 + time;
}

static void write_shared(long times) {
    for (long time = 1; time <= times; time++)
        shared = time;
}

int main(int count, char **words) {
    char byte;
    if (count != 3)
        return 2;
    printf("ready %p\n", (void *)&shared);
    fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    long start = now(CLOCK_MONOTONIC), cpu_start = now(CLOCK_THREAD_CPUTIME_ID);
    compute(atol(words[1]));
    long middle = now(CLOCK_MONOTONIC), cpu_middle = now(CLOCK_THREAD_CPUTIME_ID);
    write_shared(atol(words[2]));
    long end = now(CLOCK_MONOTONIC), cpu_end = now(CLOCK_THREAD_CPUTIME_ID);
    printf("times %ld %ld %ld %ld\n", middle - start, end - middle, cpu_middle - cpu_start, cpu_end - cpu_middle);
    return 0;
}
