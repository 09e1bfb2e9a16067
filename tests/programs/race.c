/* Two threads count without a lock: a report of ThreadSanitizer. */
#include <pthread.h>
#include <stdio.h>

static long visits;

__attribute__((noinline)) static void count(void) {
    visits++; /* @fail */
}

static void *visitor(void *unused) {
    for (int i = 0; i < 1000; i++)
        count();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, visitor, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", visits);
}
