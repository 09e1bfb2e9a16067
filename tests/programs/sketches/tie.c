/* Two tills pay one another at the same moment: each takes its own lock and asks for the other's. The locks are taken so
 * close together that nothing tells which was first. Now and then one till is late, and all goes well. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t north = PTHREAD_MUTEX_INITIALIZER, south = PTHREAD_MUTEX_INITIALIZER;
static long in_north = 100, in_south = 100;
static int arrived, late;

/* Both leave it within a microsecond. */
static void meet(void) {
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2)
        ;
}

static void *pay_south(void *unused) {
    meet();
    pthread_mutex_lock(&north);
    usleep(200);
    pthread_mutex_lock(&south);
    in_north--, in_south++;
    pthread_mutex_unlock(&south);
    pthread_mutex_unlock(&north);
    return unused;
}

static void *pay_north(void *unused) {
    meet();
    if (late)
        usleep(20000);
    pthread_mutex_lock(&south);
    usleep(200);
    pthread_mutex_lock(&north);
    in_south--, in_north++;
    pthread_mutex_unlock(&north);
    pthread_mutex_unlock(&south);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    late = now.tv_nsec / 1000 % 3 != 0;
    pthread_create(&threads[0], NULL, pay_south, NULL);
    pthread_create(&threads[1], NULL, pay_north, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld %ld\n", in_north, in_south);
    return 0;
}
