/* Touches one variable all the time and another one every twenty milliseconds, and says how often it touched the first. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

volatile uint64_t busy;
volatile uint64_t calm;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(void)
{
    double next = now();
    for (uint64_t touches = 0;; touches++) {
        busy = touches;
        for (volatile int step = 0; step < 1000; step++)
            ;
        if (touches % 64 == 0 && now() >= next) {
            next = now() + 0.02;
            calm++;
            printf("%lu\n", (unsigned long)touches);
            fflush(stdout);
        }
    }
}
