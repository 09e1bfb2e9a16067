/* Four threads touch one variable without any order among them: ROUNDS times each line, in each thread.
 * A comment `hits: …` names what one execution of its line does to `shared`. How often an exchange failed,
 * and was tried again, is printed. Says `ready`, then starts when standard input has a byte or ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define BARRIER __asm__ volatile("" ::: "memory")

long shared;

static pthread_barrier_t start;
static long rounds, failures;

static void *work(void *argument) {
    long number = (long)argument, sum = 0, failed = 0;
    pthread_barrier_wait(&start);
    for (long round = 0; round < rounds; round++) {
        long value = (number << 40) + (round << 8) + 1;
        __asm__ volatile("" : "+r"(value)); /* no part of the next line comes before */
        shared = value; /* hits: W */
        BARRIER;
        sum += shared; /* hits: R */
        BARRIER;
        shared++; /* hits O0: R W */ /* hits O2: RW */
        BARRIER;
        sum += __atomic_fetch_add(&shared, 3, __ATOMIC_SEQ_CST); /* hits: RW atomic */
        sum += __atomic_exchange_n(&shared, value + 9, __ATOMIC_SEQ_CST); /* hits: RW atomic */
        long expected = __atomic_load_n(&shared, __ATOMIC_SEQ_CST); /* hits: R */
        int again;
        do {
            again = !__atomic_compare_exchange_n(&shared, &expected, expected + 1, 0, 5, 5); /* hits: exchange */
            failed += again;
        } while (again);
    }
    __atomic_add_fetch(&failures, failed, __ATOMIC_SEQ_CST);
    return (void *)sum;
}

int main(int count, char **words) {
    pthread_t threads[THREADS];
    char byte;
    rounds = count > 1 ? atol(words[1]) : 1;
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    pthread_barrier_init(&start, NULL, THREADS);
    for (long number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, work, (void *)(number + 1));
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("%ld exchanges failed\n", failures);
    return 3;
}
