// Comes to a standstill in the way that it is told, or only looks like it. The first thread says "ready" when it is so far.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t book = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sem_t asked;

static void *waits_for_call(void *arg) {
    pthread_mutex_lock(&one);
    for (;;) pthread_cond_wait(&called, &one);
    return arg;
}

static void *takes_both(void *reversed) {
    pthread_mutex_lock(reversed ? &other : &one);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(reversed ? &one : &other);
    return reversed;
}

static void *takes_lock_and_book(void *reversed) {
    if (reversed) pthread_mutex_lock(&one);
    else pthread_rwlock_wrlock(&book);
    pthread_barrier_wait(&both);
    if (reversed) pthread_rwlock_wrlock(&book);
    else pthread_mutex_lock(&one);
    return reversed;
}

static void *takes_twice(void *arg) {
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&one);
    return arg;
}

static void *takes_and_sleeps(void *arg) {
    pthread_mutex_lock(&one);
    for (;;) sleep(100);
    return arg;
}

static void *takes(void *arg) {
    usleep(100000);
    pthread_mutex_lock(&one);
    return arg;
}

static void ask(int signal) {
    (void)signal;
    sem_post(&asked);
}

static void start(void *(*routine)(void *), void *arg) {
    pthread_t thread;
    pthread_create(&thread, NULL, routine, arg);
}

// Answers as long as anybody asks, and is never interrupted.
static int serve(void) {
    int desk = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    char byte;
    epoll_ctl(desk, EPOLL_CTL_ADD, 0, &event);
    if (epoll_wait(desk, &event, 1, -1) < 0) return errno == EINTR ? 9 : 8;
    return read(0, &byte, 1) == 1 ? 7 : 6;
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    pthread_barrier_init(&both, NULL, 2);
    sem_init(&asked, 0, 0);
    if (!strcmp(how, "circle"))
        for (long who = 0; who < 2; who++) start(takes_both, (void *)who);
    if (!strcmp(how, "book"))
        for (long who = 0; who < 2; who++) start(takes_lock_and_book, (void *)who);
    if (!strcmp(how, "twice")) start(takes_twice, NULL);
    if (!strcmp(how, "held")) {
        start(takes_and_sleeps, NULL);
        start(takes, NULL);
    }
    if (strcmp(how, "twice")) start(waits_for_call, NULL);
    if (!strcmp(how, "asked")) signal(SIGUSR1, ask);
    printf("ready\n");
    fflush(stdout);
    if (!strcmp(how, "everybody") || !strcmp(how, "asked")) sem_wait(&asked);
    return serve();
}
