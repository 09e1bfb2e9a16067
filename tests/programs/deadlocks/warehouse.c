/* A service that never ends by itself: a mover and a counter of goods at work, each with both rooms' locks, in opposite orders, a clerk who
   waits to be called, and a desk that answers whoever asks. Once mover and counter have each other's lock, the desk goes on answering. The
   desk is never interrupted: it ends with status 9 if it is. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t front = PTHREAD_MUTEX_INITIALIZER, store = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t bell = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rung = PTHREAD_COND_INITIALIZER;
static int rings;
static long goods[2] = {40, 60}, counted;

/* As long as people and shelves take. */
static void work(unsigned *seed, int least, int most) { usleep(least + rand_r(seed) % most); }

static unsigned seed_of(int who) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)now.tv_nsec * 31 + (unsigned)who;
}

static void *mover(void *unused) {
    unsigned seed = seed_of(1);
    for (;;) {
        work(&seed, 30000, 30000);
        pthread_mutex_lock(&front); /* @takes */
        goods[0]--;
        work(&seed, 1, 150);
        pthread_mutex_lock(&store); /* @waits */
        goods[1]++;
        pthread_mutex_unlock(&store);
        pthread_mutex_unlock(&front);
    }
    return unused;
}

static void *counter(void *unused) {
    unsigned seed = seed_of(2);
    for (;;) {
        work(&seed, 30000, 30000);
        pthread_mutex_lock(&store); /* @takes */
        counted = goods[1];
        work(&seed, 1, 150);
        pthread_mutex_lock(&front); /* @waits */
        counted += goods[0];
        pthread_mutex_unlock(&front);
        pthread_mutex_unlock(&store);
    }
    return unused;
}

static void *clerk(void *unused) {
    pthread_mutex_lock(&bell);
    for (;;) {
        while (!rings)
            pthread_cond_wait(&rung, &bell);
        rings--;
    }
    return unused;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, mover, NULL);
    pthread_create(&threads[1], NULL, counter, NULL);
    pthread_create(&threads[2], NULL, clerk, NULL);
    int desk = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    epoll_ctl(desk, EPOLL_CTL_ADD, 0, &wanted);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event event;
        char question[64];
        if (epoll_wait(desk, &event, 1, -1) < 0)
            _exit(errno == EINTR ? 9 : 8);
        ssize_t length = read(0, question, sizeof question - 1);
        if (length <= 0)
            _exit(7);
        question[length] = 0;
        printf("answer to %s", question);
        fflush(stdout);
    }
}
