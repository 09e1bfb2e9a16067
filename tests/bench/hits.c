/* A loop that computes and a loop that writes one variable, each timed: `hits COMPUTED WRITTEN`. Says `ready` with
 * the variable's address and starts when standard input has a byte or ends; then prints the nanoseconds of both. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

volatile long shared, untouched;

static volatile long beside;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
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
    long start = now();
    compute(atol(words[1]));
    long middle = now();
    write_shared(atol(words[2]));
    long end = now();
    printf("times %ld %ld\n", middle - start, end - middle);
    return 0;
}
