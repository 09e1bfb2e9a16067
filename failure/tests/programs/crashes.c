// Ways to fail, by the first argument. The failing thread has a few frames that a compiler must not fold
// away, and two other threads wait in system calls, one of them inside a callback from the C library.
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

typedef void (*action)(int);

static volatile int depth;
static int *volatile nowhere;
static action volatile no_action;
static pthread_barrier_t ready;

KEEP static void use(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

KEEP static void fault(int n) {
    char room[40];
    use(room);
    *nowhere = n;
    use(room);
}

KEEP static void call_null(int n) {
    char room[24];
    use(room);
    no_action(n);
    use(room);
}

KEEP static void call_wild(int n) {
    no_action = (action)(uintptr_t)0x123456000;
    call_null(n);
    depth++;
}

KEEP static void fail_assertion(int n) {
    assert(n == 42 && "the answer");
    depth++;
}

KEEP static void free_twice(int n) {
    char *volatile p = malloc(24 + n), *volatile q = p;
    free(p);
    free(q);
    depth++;
}

KEEP static void overflow(int n) {
    char room[200];
    use(room);
    overflow(n + 1);
    use(room);
}

KEEP static void divide(int n) {
    depth = n / depth;
}

// A frame that the compiler realigns: the caller is found through a register other than rsp and rbp.
KEEP static void realigned(int n) {
    __attribute__((aligned(64))) char room[128];
    char *more = __builtin_alloca(n + 16);
    use(room);
    use(more);
    fault(n);
    use(more);
}

KEEP static void on_signal(int number) {
    char room[64];
    use(room);
    if (number == SIGSEGV) abort();
    fault(number);
    use(room);
}

KEEP static void in_handler(int n) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    depth += n;
}

KEEP static void in_handler_of_fault(int n) {
    static char stack[65536];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternative, NULL);
    sigaction(SIGSEGV, &action, NULL);
    fault(n);
    depth += n;
}

// Makes the kernel's own code in the process fault.
KEEP static void in_vdso(int n) {
    clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(uintptr_t)n);
    depth++;
}

KEEP static void hang(int n) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    puts("hanging");
    fflush(stdout);
    pthread_mutex_lock(&lock);
    depth += n;
}

KEEP static void quit(int n) {
    signal(SIGQUIT, SIG_DFL); // A shell's background jobs inherit that it is ignored.
    kill(getpid(), SIGQUIT);
    pause();
    depth += n;
}

// Overwrites its own return address.
KEEP static void smash(int n) {
    void *volatile *frame = __builtin_frame_address(0);
    frame[1] = (void *)(uintptr_t)(0x41414141 + n);
    use((void *)frame);
}

static int compare(const void *a, const void *b) {
    (void)a;
    (void)b;
    pthread_barrier_wait(&ready);
    for (;;) pause();
}

static void *sorts(void *argument) {
    int numbers[4] = {4, 3, 2, 1};
    qsort(numbers, 4, sizeof *numbers, compare);
    return argument;
}

static void *sleeps(void *argument) {
    pthread_barrier_wait(&ready);
    sleep(1000);
    return argument;
}

static const struct {
    const char *name;
    action run;
} ways[] = {
    {"fault", fault},         {"null", call_null},       {"wild", call_wild},
    {"assert", fail_assertion}, {"free", free_twice},    {"overflow", overflow},
    {"divide", divide},       {"realigned", realigned},  {"handler", in_handler},
    {"altstack", in_handler_of_fault}, {"smash", smash},          {"vdso", in_vdso},
    {"hang", hang},           {"quit", quit},
};

KEEP static void nested(action run, int n) {
    char room[72];
    use(room);
    run(n);
    use(room);
}

static void *fails(void *way) {
    pthread_barrier_wait(&ready);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, way) == 0) nested(ways[i].run, 7);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    pthread_t threads[3];
    int in_main = argc > 2 && strcmp(argv[2], "main") == 0;
    if (argc > 2 && strcmp(argv[2], "alone") == 0) {
        pthread_barrier_init(&ready, NULL, 1);
        fails(argv[1]);
        return 0;
    }
    pthread_barrier_init(&ready, NULL, in_main ? 3 : 4);
    pthread_create(&threads[0], NULL, sorts, NULL);
    pthread_create(&threads[1], NULL, sleeps, NULL);
    if (in_main) {
        fails(argv[1]);
    } else {
        pthread_create(&threads[2], NULL, fails, argv[1]);
        pthread_barrier_wait(&ready);
        pthread_join(threads[2], NULL);
    }
    return 0;
}
