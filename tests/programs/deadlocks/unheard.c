/* A writer waits for the flusher, who says that it is done without the lock under which the writer looks. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct journal {
    pthread_mutex_t lock;
    pthread_cond_t flushed;
    bool dirty;
    int entries;
};

static struct journal journal = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 };

static void disk(unsigned *seed, int most)
{
    usleep((unsigned)(rand_r(seed) % most));
}

static void *flusher(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    disk(&seed, 2000);
    journal.entries = 0;
    disk(&seed, 500);
    journal.dirty = false; /* @news */
    pthread_cond_signal(&journal.flushed);
    return NULL;
}

static void wait_flushed(struct journal *j, unsigned *seed)
{
    pthread_mutex_lock(&j->lock);
    while (j->dirty) { /* @look */
        disk(seed, 300);
        pthread_cond_wait(&j->flushed, &j->lock); /* @wait */
    }
    pthread_mutex_unlock(&j->lock);
}

int main(void)
{
    unsigned seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    for (int round = 0; round < 3; round++) {
        journal.dirty = true;
        journal.entries = 5;
        unsigned other = (unsigned)rand_r(&seed);
        pthread_t thread;
        pthread_create(&thread, NULL, flusher, &other);
        disk(&seed, 1500);
        wait_flushed(&journal, &seed);
        pthread_join(thread, NULL);
    }
    printf("%d entries left\n", journal.entries);
    return 0;
}
