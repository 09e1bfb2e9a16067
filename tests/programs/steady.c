/* A fifth of a second of work with a result: threads that touch `shared`, threads that come and go, a timer
 * whose signals are counted, calls that a signal would interrupt. Whatever is done to it, it prints the same and
 * exits with the same status. Says when it is done, and ends when standard input ends. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 3
#define ROUNDS 120

long shared;

static long interrupted, handled;
static int nothing_comes;

static void pause_for(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    if (nanosleep(&time, NULL) != 0)
        __atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        struct epoll_event event;
        __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST);
        pause_for(300);
        __atomic_add_fetch(&shared, 2, __ATOMIC_SEQ_CST);
        if (epoll_wait(nothing_comes, &event, 1, 1) < 0)
            __atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
    }
    return argument;
}

static void *visitor(void *argument) {
    __atomic_add_fetch(&shared, 4, __ATOMIC_SEQ_CST);
    return argument;
}

static void on_signal(int signal) {
    (void)signal;
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
    pthread_t workers[WORKERS], thread;
    sigset_t alarm;
    struct sigaction action = {.sa_handler = on_signal};
    char byte;
    nothing_comes = epoll_create1(0);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    for (int number = 0; number < WORKERS; number++)
        pthread_create(&workers[number], NULL, work, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        if (pthread_create(&thread, NULL, visitor, NULL) != 0)
            abort();
        pthread_join(thread, NULL);
        raise(SIGUSR1);
        pause_for(500);
    }
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
    printf("shared %ld, handled %ld, interrupted %ld\n", shared, handled, interrupted);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 7;
}
