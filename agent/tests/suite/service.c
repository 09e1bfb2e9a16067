/* Serves for as long as it is told: two threads, one of which stores through a pointer that SIGUSR1 sets to null. SIGUSR2
   only counts. Ends with status 7. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t place;
uint64_t *volatile target = &place;
volatile uint64_t stored;
static volatile sig_atomic_t broken, counted;

static void take(int signal)
{
    if (signal == SIGUSR1)
        broken = 1;
    else
        counted++;
}

static void pause_for(long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

static void *idle(void *unused)
{
    for (;;)
        pause_for(1000);
    return unused;
}

static void store(uint64_t value)
{
    *target = value; /* @fail */
    stored = value;
}

int main(int argc, char **argv)
{
    long ms = argc > 1 ? atol(argv[1]) : 60000;
    pthread_t thread;
    struct sigaction action = { .sa_handler = take };
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    pthread_create(&thread, NULL, idle, NULL);
    puts("ready");
    fflush(stdout);
    for (long passed = 0; passed < ms; passed += 5) {
        if (broken)
            target = NULL;
        store((uint64_t)passed);
        pause_for(5);
    }
    printf("stored %d\n", stored > 0);
    return 7;
}
