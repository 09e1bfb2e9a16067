/* A crowd that comes and goes: four times fifty threads at once, each of which adds a number of its own to `total` five
 * times, and once to `count`. What is added is different in each thread, and nothing tells what an addition found. All add
 * to `mixed` too, write it and read it, and leave their number in `last`. Says `ready`, then starts when standard input has
 * a byte or ends. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 4
#define AT_ONCE 50
#define TIMES 5

long total;
int count;
volatile long mixed;
long last;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument) {
    long number = (long)argument;
    for (int time = 0; time < TIMES; time++)
        __atomic_add_fetch(&total, number, __ATOMIC_SEQ_CST); /* hits: RW atomic */
    pthread_mutex_lock(&lock);
    count++; /* hits O0: R W */ /* hits O2: RW */
    pthread_mutex_unlock(&lock);
    for (int time = 0; time < TIMES; time++) {
        __atomic_add_fetch(&mixed, number, __ATOMIC_SEQ_CST); /* @mixed-add */
        mixed = number << 32 | time; /* @mixed-write */
        (void)mixed; /* @mixed-read */
    }
    __atomic_exchange_n(&last, number, __ATOMIC_SEQ_CST); /* @last */
    return NULL;
}

int main(void) {
    char byte;
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    for (long round = 0; round < ROUNDS; round++) {
        pthread_t threads[AT_ONCE];
        for (long number = 0; number < AT_ONCE; number++)
            pthread_create(&threads[number], NULL, work, (void *)(round * AT_ONCE + number + 1));
        for (int number = 0; number < AT_ONCE; number++)
            pthread_join(threads[number], NULL);
    }
    printf("%ld %d\n", total, count); /* @print */
    return 3;
}
