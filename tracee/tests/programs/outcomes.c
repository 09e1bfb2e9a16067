/* Ends in the way that its first argument names. The failing statement of each way has its name as a mark. */
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int zero;
static int *volatile nowhere;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static char handler_stack[65536];

static __attribute__((noinline)) void segv(void) {
    *nowhere = 1; /* @segv @in-thread @while-ending @handled @handled-exit @handled-abort @handled-fault @handled-wait @child @leaderless */
}

static __attribute__((noinline)) void divide(void) {
    zero = 100 / zero; /* @fpe */
}

static __attribute__((noinline)) void check(int count) {
    assert(count > 0); /* @assert */
}

static __attribute__((noinline)) void release(char *block) {
    free(block);
    zero = 0;
    free(block); /* @double-free */
}

static __attribute__((noinline)) void smash(char *at, size_t length) {
    memset(at, 'x', length);
}

static __attribute__((noinline)) int overflow(void) {
    char small[16];
    smash(small, 64 + zero);
    return small[0];
} /* @smash */

static __attribute__((noinline)) void give_up(void) {
    fprintf(stderr, "giving up\n");
    abort(); /* @abort */
}

static __attribute__((noinline)) void leave(int status) {
    printf("leaving with %d\n", status); /* @leaving */
    exit(status); /* @exit */
}

static volatile int started;

static void *crash_when_started(void *unused) {
    while (!started) ;
    segv();
    return unused;
}

/* Ends the process while a thread of it crashes, or a little later. */
static void leave_crashing(long later) {
    pthread_t thread;
    pthread_create(&thread, NULL, crash_when_started, NULL);
    started = 1;
    while (later--) __asm__ volatile("");
    _exit(0);
}

static void *deadlock(void *reversed) {
    pthread_mutex_t *a = reversed ? &second : &first, *b = reversed ? &first : &second;
    pthread_mutex_lock(a);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(b); /* @hang */
    return NULL;
}

/* Others wait for this one, which goes on after a second: by itself, by a time limit, by a timer's signal. */
static const char *slow_way;
static sem_t slow_done;

static void wake_up(int signal) {
    (void)signal;
    sem_post(&slow_done);
}

static void *slow(void *unused) {
    (void)unused;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&first);
    if (!strcmp(slow_way, "slow-sleep")) sleep(1);
    if (!strcmp(slow_way, "slow-limit")) sem_timedwait(&slow_done, &until);
    if (!strcmp(slow_way, "slow-signal")) while (sem_wait(&slow_done) != 0) ;
    if (!strcmp(slow_way, "slow-child")) while (sem_wait(&slow_done) != 0) ;
    pthread_mutex_unlock(&first);
    return NULL;
}

static void be_slow(const char *way) {
    pthread_t thread;
    slow_way = way;
    sem_init(&slow_done, 0, 0);
    if (!strcmp(way, "slow-signal")) {
        signal(SIGALRM, wake_up);
        alarm(1);
    }
    if (!strcmp(way, "slow-child")) {
        signal(SIGCHLD, wake_up);
        if (fork() == 0) {
            sleep(1);
            _exit(0);
        }
    }
    pthread_create(&thread, NULL, slow, NULL);
    pthread_join(thread, NULL);
}

/* One variable in three places, another one beside it. */
struct queue {
    int used;
    int *slots, *lock;
};
static struct queue queue;
static struct queue *volatile queues[] = {&queue};

static __attribute__((noinline)) void use_queue(struct queue *q, const char *how) {
    if (!strcmp(how, "queue-lock")) *q->lock = 1; /* @queue-lock */
    if (!strcmp(how, "queue-unlock")) *q->lock -= 2; /* @queue-unlock */
    if (!strcmp(how, "queue-call")) memset(q->lock, 0, (size_t)zero + 4000); /* @queue-call */
    if (!strcmp(how, "queue-slots")) q->slots[q->used] = 3; /* @queue-slots */
}

static __attribute__((noinline)) void serve(const char *how) {
    use_queue(queues[zero], how);
    zero = 0;
}

static volatile int idling;

static void *crash_in_thread(void *unused) {
    (void)unused;
    while (!idling) usleep(100);
    segv();
    return NULL;
}

static void *crash_later(void *unused) {
    (void)unused;
    usleep(100000);
    segv();
    return NULL;
}

static __attribute__((noinline)) int recurse(volatile int depth) {
    volatile char block[4000];
    block[0] = (char)depth;
    return recurse(depth + 1) + block[0]; /* @overflow */
}

static void *idle(void *unused) {
    (void)unused;
    idling = 1, pause(); /* @idle */
    return NULL;
}

static void raise_again(int signal_number) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void leave_at_once(int signal_number) {
    (void)signal_number;
    _exit(9);
}

static void abort_at_once(int signal_number) {
    (void)signal_number;
    abort();
}

static void make_good(int signal_number, siginfo_t *info, void *context) {
    (void)signal_number;
    (void)context;
    mmap((void *)((unsigned long)info->si_addr & ~4095UL), 4096, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* What a handler that writes down where the program was may come to: it goes through what is broken, */
static void fault_again(int signal) {
    *(volatile int *)(long)(signal + 64) = 1;
}

/* or it needs a lock that the interrupted thread has. */
static void wait_for_itself(int signal) {
    (void)signal;
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&first);
}

static void handle_with(void (*handler)(int)) {
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    pthread_t threads[2];
    if (!strcmp(way, "segv")) segv();
    if (!strcmp(way, "fpe")) divide();
    if (!strcmp(way, "assert")) check(zero);
    if (!strcmp(way, "double-free")) release(malloc(4000));
    if (!strcmp(way, "smash")) return overflow();
    if (!strcmp(way, "abort")) give_up();
    if (!strcmp(way, "exit")) leave(3);
    if (!strcmp(way, "term")) kill(getpid(), SIGTERM); /* @term */
    if (!strcmp(way, "in-thread")) {
        pthread_create(&threads[0], NULL, idle, NULL);
        pthread_create(&threads[1], NULL, crash_in_thread, NULL);
        pthread_join(threads[0], NULL);
    }
    if (!strcmp(way, "while-ending")) leave_crashing(atol(arguments[2]));
    if (!strcmp(way, "leaderless")) {
        pthread_create(&threads[0], NULL, crash_later, NULL);
        pthread_exit(NULL);
    }
    if (!strcmp(way, "overflow")) return recurse(zero);
    if (!strcmp(way, "hang")) {
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&threads[0], NULL, deadlock, NULL);
        pthread_create(&threads[1], NULL, deadlock, &zero);
        pthread_join(threads[0], NULL);
    }
    if (!strncmp(way, "slow", 4)) be_slow(way);
    if (!strncmp(way, "queue", 5)) serve(way);
    if (!strcmp(way, "handled")) handle_with(raise_again);
    if (!strcmp(way, "handled-exit")) handle_with(leave_at_once);
    if (!strcmp(way, "handled-abort")) handle_with(abort_at_once);
    if (!strcmp(way, "handled-fault")) handle_with(fault_again);
    if (!strcmp(way, "handled-wait")) handle_with(wait_for_itself);
    if (!strncmp(way, "handled", 7)) segv();
    if (!strcmp(way, "made-good")) {
        struct sigaction action = {.sa_sigaction = make_good, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        int *page = mmap(NULL, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 8; i++) page[i * 1024] = i;
        printf("%d\n", page[7 * 1024]);
        return 0;
    }
    if (!strcmp(way, "child")) {
        int status;
        pid_t child = fork();
        if (child == 0) segv();
        waitpid(child, &status, 0);
        printf("child: %d\n", WTERMSIG(status));
    }
    if (!strcmp(way, "left-behind")) {
        if (fork() == 0) {
            sleep(1);
            puts("still here");
            return 0;
        }
    }
    return 0;
}
