/* Threads that access `watched` a known number of times.
 * accesses THREADS WRITES [kernel]: says where things are, does a round for each line it gets, ends with its input. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile uint64_t watched;
volatile uint64_t other;
static long writes;
static int by_kernel;

__attribute__((noinline)) void step(uint64_t a, uint64_t b)
{
    other = b;
    watched = a;
}

/* An instruction that takes no probe. Never executed. */
__attribute__((naked)) void refused(void)
{
    __asm__(".byte 0xf0, 0x90, 0xf4");
}

#ifdef HANDLE_TRAPS
#include <signal.h>
#include <string.h>

static volatile uint64_t right, wrong;

/* Counts the traps that perf sends with the cookie 99, which stands behind si_addr. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
    uint64_t cookie;
    memcpy(&cookie, (char *)info + 24, 8);
    if (info->si_code == 6 && info->si_addr == &watched && cookie == 99)
        __atomic_fetch_add(&right, 1, __ATOMIC_RELAXED);
    else
        wrong = 1;
    (void)signal;
    (void)context;
}

static void handle_traps(void)
{
    struct sigaction action = {0};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, 0);
}
#define RESULT (wrong ? 0 : right)
#else
static void handle_traps(void) {}
#define RESULT watched
#endif

/* Lets the kernel write the value. */
static void step_by_kernel(uint64_t a)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], &a, sizeof a) != sizeof a || read(ends[0], (void *)&watched, sizeof a) < 0)
        abort();
    close(ends[0]);
    close(ends[1]);
}

static void *work(void *arg)
{
    uint64_t base = (uintptr_t)arg << 32;
    for (long i = 1; i <= writes; i++) {
        if (by_kernel)
            step_by_kernel(base | i);
        else
            step(base | i, base | i << 8);
    }
    return 0;
}

static int line_comes(void)
{
    int c;
    do
        c = getchar();
    while (c != '\n' && c != EOF);
    return c != EOF;
}

/* At most 16 threads at a time, so that many come and go. */
static void one_round(long threads)
{
    if (threads == 0)
        work((void *)1);
    for (long done = 0; done < threads;) {
        pthread_t ids[16];
        long n = threads - done < 16 ? threads - done : 16;
        for (long i = 0; i < n; i++)
            pthread_create(&ids[i], 0, work, (void *)(done + i + 1));
        for (long i = 0; i < n; i++)
            pthread_join(ids[i], 0);
        done += n;
    }
}

int main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : 1;
    writes = argc > 2 ? atol(argv[2]) : 10;
    by_kernel = argc > 3;
    handle_traps();
    printf("%p %p %p %p\n", (void *)&watched, (void *)&other, (void *)step, (void *)refused);
    fflush(stdout);
    while (line_comes()) {
        one_round(threads);
        printf("%llu\n", (unsigned long long)RESULT);
        fflush(stdout);
    }
    return 7;
}
