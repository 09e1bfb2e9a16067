/* Guests who leave one after another while the host clears the table that the last of them still reads. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { GUESTS = 40 };

static int *volatile table;
static int plates = 3;

static void *guest(void *unused) { return unused; }

static void *host(void *unused) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep((unsigned)(now.tv_nsec / 1000 % 1500));
    table = NULL; /* clear */
    return unused;
}

int main(void) {
    pthread_t guests[GUESTS], clearing;
    table = &plates;
    pthread_create(&clearing, NULL, host, NULL);
    for (int at = 0; at < GUESTS; at++) {
        pthread_create(&guests[at], NULL, guest, NULL);
        plates += *table; /* fail */
    }
    for (int at = 0; at < GUESTS; at++)
        pthread_join(guests[at], NULL);
    pthread_join(clearing, NULL);
    printf("%d\n", plates);
    return 0;
}
