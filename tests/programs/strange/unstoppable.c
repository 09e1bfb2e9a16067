/* A worker that blocks all signals, so that main takes them, gives a buffer back while main may still be writing to it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct block {
    char *in;
    long size;
};

static long moment(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_nsec / 1000;
}

static __attribute__((noinline)) void put(char *out, long at) {
    out[at] = 'x'; /* fail */
}

static volatile long written;

static void *worker(void *argument) {
    struct block *block = argument;
    long enough = moment() % (2 * block->size);
    while (written < enough && written < block->size) usleep(10);
    block->in = NULL; /* give back */
    while (written < block->size) usleep(100);
    return NULL;
}

int main(void) {
    struct block *block = malloc(sizeof *block);
    char *buffer = calloc(1, 4096);
    sigset_t all, before;
    pthread_t thread;
    block->size = 40;
    block->in = buffer;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, worker, block);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (long at = 0; at < block->size; at++) {
        put(block->in, at); /* use */
        written = at + 1;
        usleep(30);
    }
    pthread_join(thread, NULL);
    printf("%s\n", buffer);
    return 0;
}
