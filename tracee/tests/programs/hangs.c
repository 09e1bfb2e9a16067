// Four threads: in a loop, in a wait without end, in a lock that nobody gives back, and the first in a read.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int going = 1;

static void *spin(void *arg) {
    while (going) ;
    return arg;
}

static void *wait_long(void *arg) {
    for (;;) pause();
    return arg;
}

static void *wait_for_lock(void *arg) {
    pthread_mutex_lock(&lock);
    return arg;
}

int main(void) {
    pthread_t threads[3];
    char byte;
    pthread_mutex_lock(&lock);
    pthread_create(&threads[0], NULL, spin, NULL);
    pthread_create(&threads[1], NULL, wait_long, NULL);
    pthread_create(&threads[2], NULL, wait_for_lock, NULL);
    printf("ready\n");
    fflush(stdout);
    if (read(0, &byte, 1) != 1) return 1;
    going = 0;
    pthread_mutex_unlock(&lock);
    pthread_join(threads[0], NULL);
    pthread_join(threads[2], NULL);
    printf("done\n");
    return 4;
}
