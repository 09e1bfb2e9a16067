/* A mover and a counter of goods, each with both rooms' locks, in opposite orders. The argument says of which kind the locks are. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t front, store;
static long goods[2] = {40, 60};

/* As long as people and shelves take. */
static void work(unsigned *seed, int most) { usleep(rand_r(seed) % most); }

static unsigned seed_of(int who) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)now.tv_nsec * 31 + (unsigned)who;
}

static void *mover(void *unused) {
    unsigned seed = seed_of(1);
    work(&seed, 12000);
    pthread_mutex_lock(&front); /* @takes */
    goods[0]--;
    work(&seed, 2000);
    pthread_mutex_lock(&store); /* @waits */
    goods[1]++;
    pthread_mutex_unlock(&store);
    pthread_mutex_unlock(&front);
    return unused;
}

static void *counter(void *sum) {
    unsigned seed = seed_of(2);
    work(&seed, 12000);
    pthread_mutex_lock(&store); /* @takes */
    *(long *)sum = goods[1];
    work(&seed, 2000);
    pthread_mutex_lock(&front); /* @waits */
    *(long *)sum += goods[0];
    pthread_mutex_unlock(&front);
    pthread_mutex_unlock(&store);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    if (argc > 1 && !strcmp(argv[1], "recursive"))
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    if (argc > 1 && !strcmp(argv[1], "errorcheck"))
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    if (argc > 1 && !strcmp(argv[1], "inherit"))
        pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&front, &kind);
    pthread_mutex_init(&store, &kind);
    pthread_t threads[2];
    long sum = 0;
    pthread_create(&threads[0], NULL, mover, NULL);
    pthread_create(&threads[1], NULL, counter, &sum);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld\n", sum);
    return 0;
}
