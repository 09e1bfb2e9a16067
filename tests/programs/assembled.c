/* Sixty threads that are there, and wait, before anything happens; then each adds its number to `total` once. Says `ready`,
 * then lets them go when standard input has a byte or ends. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS 60

long total;

static pthread_barrier_t all_there, go;

static void *work(void *argument) {
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&go);
    __atomic_add_fetch(&total, (long)argument, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    char byte;
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    for (long number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, work, (void *)(number + 1));
    pthread_barrier_wait(&all_there);
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    pthread_barrier_wait(&go);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    return 3;
}
