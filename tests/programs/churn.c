/* Threads that come and go: THREADS of them, at most a few at a time, each touching `shared` from its first
 * line on; every other one is created by the thread before it. All the while, from before the start on, other
 * threads come and go that touch nothing. Says `ready`, then starts when standard input has a byte or ends. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_ONCE 8

long shared;

static sem_t places;
static volatile int over;
static pthread_attr_t detached;

static void *second(void *argument) {
    __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST); /* @second */
    return argument;
}

static void *first(void *argument) {
    __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST); /* @first */
    pthread_t thread;
    if (pthread_create(&thread, NULL, second, NULL) != 0)
        abort();
    __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST); /* @first-again */
    pthread_join(thread, NULL);
    sem_post(&places);
    return argument;
}

static void *bystander(void *argument) {
    usleep(200);
    return argument;
}

static void *crowd(void *argument) {
    while (!over) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, bystander, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return argument;
}

int main(int count, char **words) {
    long threads = count > 1 ? atol(words[1]) : 2;
    pthread_t crowds[2];
    char byte;
    sem_init(&places, 0, AT_ONCE);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int number = 0; number < 2; number++)
        pthread_create(&crowds[number], NULL, crowd, NULL);
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    for (long created = 0; created < threads; created += 2) {
        pthread_t thread;
        sem_wait(&places);
        if (pthread_create(&thread, &detached, first, NULL) != 0)
            abort();
    }
    for (int place = 0; place < AT_ONCE; place++)
        sem_wait(&places);
    over = 1;
    for (int number = 0; number < 2; number++)
        pthread_join(crowds[number], NULL);
    printf("%ld\n", shared); /* @print */
    return 3;
}
