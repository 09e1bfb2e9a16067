/* Two tables behind locks for readers and writers. With `write`, each thread writes the one and then reads the other; with `read`,
 * each reads the one and then writes the other: whoever reads is nowhere named as the holder. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t names_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t rates_lock = PTHREAD_RWLOCK_INITIALIZER;
static int names, rates, writes_first;

static void work(unsigned *seed, int most) { usleep(rand_r(seed) % most); }

static unsigned seed_of(int who) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)now.tv_nsec * 31 + (unsigned)who;
}

static void *rename_all(void *unused) {
    unsigned seed = seed_of(1);
    work(&seed, 12000);
    if (writes_first) {
        pthread_rwlock_wrlock(&names_lock); /* @write-takes */
        names++;
        work(&seed, 3000);
        pthread_rwlock_rdlock(&rates_lock); /* @write-waits */
        names += rates;
    } else {
        pthread_rwlock_rdlock(&names_lock); /* @read-takes */
        int seen = names;
        work(&seed, 3000);
        pthread_rwlock_wrlock(&rates_lock); /* @read-waits */
        rates = seen;
    }
    pthread_rwlock_unlock(&rates_lock);
    pthread_rwlock_unlock(&names_lock);
    return unused;
}

static void *rate_all(void *unused) {
    unsigned seed = seed_of(2);
    work(&seed, 12000);
    if (writes_first) {
        pthread_rwlock_wrlock(&rates_lock); /* @write-takes */
        rates++;
        work(&seed, 3000);
        pthread_rwlock_rdlock(&names_lock); /* @write-waits */
        rates += names;
    } else {
        pthread_rwlock_rdlock(&rates_lock); /* @read-takes */
        int seen = rates;
        work(&seed, 3000);
        pthread_rwlock_wrlock(&names_lock); /* @read-waits */
        names = seen;
    }
    pthread_rwlock_unlock(&names_lock);
    pthread_rwlock_unlock(&rates_lock);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    writes_first = argc < 2 || strcmp(argv[1], "read");
    pthread_create(&threads[0], NULL, rename_all, NULL);
    pthread_create(&threads[1], NULL, rate_all, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%d %d\n", names, rates);
    return 0;
}
