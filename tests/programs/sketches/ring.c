/* A press with six stages, each a thread of its own. A stage holds its plate and asks for the next stage's, the last one
 * for the first's: now and then every stage holds one, and all of them wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { FEED, WET, INK, PRESS, DRY, CUT, STAGES };

static pthread_mutex_t plates[STAGES];
static long sheets[STAGES];

static void work(int stage) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sheets[stage]++;
    usleep(200 + (useconds_t)(now.tv_nsec / 1000 + stage * 37) % 1500);
}

static void *feed(void *unused) {
    work(FEED);
    pthread_mutex_lock(&plates[FEED]);
    work(FEED);
    pthread_mutex_lock(&plates[WET]); /* @fail */
    pthread_mutex_unlock(&plates[WET]);
    pthread_mutex_unlock(&plates[FEED]);
    return unused;
}

static void *wet(void *unused) {
    work(WET);
    pthread_mutex_lock(&plates[WET]);
    work(WET);
    pthread_mutex_lock(&plates[INK]);
    pthread_mutex_unlock(&plates[INK]);
    pthread_mutex_unlock(&plates[WET]);
    return unused;
}

static void *ink(void *unused) {
    work(INK);
    pthread_mutex_lock(&plates[INK]);
    work(INK);
    pthread_mutex_lock(&plates[PRESS]);
    pthread_mutex_unlock(&plates[PRESS]);
    pthread_mutex_unlock(&plates[INK]);
    return unused;
}

static void *press(void *unused) {
    work(PRESS);
    pthread_mutex_lock(&plates[PRESS]);
    work(PRESS);
    pthread_mutex_lock(&plates[DRY]);
    pthread_mutex_unlock(&plates[DRY]);
    pthread_mutex_unlock(&plates[PRESS]);
    return unused;
}

static void *dry(void *unused) {
    work(DRY);
    pthread_mutex_lock(&plates[DRY]);
    work(DRY);
    pthread_mutex_lock(&plates[CUT]);
    pthread_mutex_unlock(&plates[CUT]);
    pthread_mutex_unlock(&plates[DRY]);
    return unused;
}

static void *cut(void *unused) {
    work(CUT);
    pthread_mutex_lock(&plates[CUT]);
    work(CUT);
    pthread_mutex_lock(&plates[FEED]);
    pthread_mutex_unlock(&plates[FEED]);
    pthread_mutex_unlock(&plates[CUT]);
    return unused;
}

int main(void) {
    void *(*const stages[STAGES])(void *) = {feed, wet, ink, press, dry, cut};
    pthread_t threads[STAGES];
    for (int stage = 0; stage < STAGES; stage++)
        pthread_mutex_init(&plates[stage], NULL);
    for (int stage = 0; stage < STAGES; stage++)
        pthread_create(&threads[stage], NULL, stages[stage], NULL);
    for (int stage = 0; stage < STAGES; stage++)
        pthread_join(threads[stage], NULL);
    printf("%ld sheets\n", sheets[CUT]);
    return 0;
}
