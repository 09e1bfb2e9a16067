/* Locks that nobody gives back. `twice`: whoever finds the box full empties it, and that takes the box's lock once more. `gone`: whoever
 * finds it full returns with the lock and ends. `join`: whoever finds it full waits, with the lock, for the end of the other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct box {
    pthread_mutex_t lock;
    int count, most;
};

static struct box *box;
static const char *way;
static pthread_t other;

static void empty(struct box *full) {
    pthread_mutex_lock(&full->lock); /* @twice */
    full->count = 0;
    pthread_mutex_unlock(&full->lock);
}

static int put(struct box *into) {
    pthread_mutex_lock(&into->lock); /* @put */
    if (into->count == into->most) {
        if (!strcmp(way, "twice"))
            empty(into);
        else if (!strcmp(way, "gone"))
            return -1;
        else
            pthread_join(other, NULL); /* @join */
    }
    into->count++;
    pthread_mutex_unlock(&into->lock);
    return 0;
}

static void *take(void *argument) {
    unsigned seed = *(unsigned *)argument;
    for (int time = 0; time < 4; time++) {
        usleep(rand_r(&seed) % 3000);
        pthread_mutex_lock(&box->lock); /* @take @join */
        if (box->count > 0)
            box->count--;
        pthread_mutex_unlock(&box->lock);
    }
    return NULL;
}

static void *fill(void *argument) {
    unsigned seed = *(unsigned *)argument + 1;
    for (int time = 0; time < 4; time++) {
        usleep(rand_r(&seed) % 3000);
        if (put(box) < 0)
            break;
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t filler;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned seed = (unsigned)now.tv_nsec * 31;
    way = argc > 1 ? argv[1] : "twice";
    box = calloc(1, sizeof *box);
    box->most = 2;
    pthread_mutex_init(&box->lock, NULL);
    pthread_create(&other, NULL, take, &seed);
    pthread_create(&filler, NULL, fill, &seed);
    pthread_join(filler, NULL);
    if (strcmp(way, "join"))
        pthread_join(other, NULL);
    printf("%d\n", box->count);
    return 0;
}
