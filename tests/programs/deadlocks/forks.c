/* Philosophers: as many as the argument says, their forks on the heap, and one statement in which all of them wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct fork {
    int uses;
    pthread_mutex_t taken;
};

struct seat {
    struct fork *left, *right;
    unsigned seed;
};

static void think(struct seat *seat, int most) { usleep(rand_r(&seat->seed) % most); }

static void *dine(void *argument) {
    struct seat *seat = argument;
    think(seat, 8000);
    pthread_mutex_lock(&seat->left->taken); /* @takes */
    seat->left->uses++;
    think(seat, 5000);
    pthread_mutex_lock(&seat->right->taken); /* @waits */
    seat->right->uses++;
    pthread_mutex_unlock(&seat->right->taken);
    pthread_mutex_unlock(&seat->left->taken);
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 2;
    struct fork *forks = calloc((size_t)count, sizeof *forks);
    struct seat *seats = calloc((size_t)count, sizeof *seats);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (int at = 0; at < count; at++) {
        pthread_mutex_init(&forks[at].taken, NULL);
        seats[at].left = &forks[at];
        seats[at].right = &forks[(at + 1) % count];
        seats[at].seed = (unsigned)now.tv_nsec * 31 + (unsigned)at;
    }
    for (int at = 0; at < count; at++)
        pthread_create(&threads[at], NULL, dine, &seats[at]);
    for (int at = 0; at < count; at++)
        pthread_join(threads[at], NULL);
    printf("%d\n", forks[0].uses);
    return 0;
}
