/* Sixteen threads of three roles share a connection: eight send over it, seven read its counters, one replaces it.
   The one that replaces it takes it away before it puts the new one there, and senders look twice. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct connection {
    int socket;
    long sent;
    long limit;
};

static struct connection *current;
static pthread_mutex_t replacing = PTHREAD_MUTEX_INITIALIZER;

static struct connection *connect_to(int socket)
{
    struct connection *made = malloc(sizeof *made);
    made->socket = socket;
    made->sent = 0;
    made->limit = 1000000;
    return made;
}

static unsigned random_of(unsigned *seed)
{
    return *seed = *seed * 1103515245 + 12345, *seed >> 16;
}

/* Waits for the network, for some time between two bounds in microseconds. */
static void wait_for(unsigned *seed, unsigned least, unsigned most)
{
    usleep(least + random_of(seed) % (most - least));
}

static unsigned seed_of(void *who)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)now.tv_nsec ^ (unsigned)(size_t)who * 7919;
}

__attribute__((noinline)) static int send_over(unsigned *seed)
{
    if (!current) /* @check */
        return 0;
    wait_for(seed, 200, 600);
    return current->socket >= 0; /* @use */
}

static void *sender(void *who)
{
    unsigned seed = seed_of(who);
    long sent = 0;
    for (int i = 0; i < 3; i++) {
        wait_for(&seed, 500, 12000);
        sent += send_over(&seed);
    }
    return (void *)sent;
}

static void *reader(void *who)
{
    unsigned seed = seed_of(who);
    long seen = 0;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&replacing);
        seen += current ? current->limit - current->sent : 0;
        pthread_mutex_unlock(&replacing);
        wait_for(&seed, 500, 12000);
    }
    return (void *)seen;
}

static void *replacer(void *who)
{
    unsigned seed = seed_of(who);
    wait_for(&seed, 1000, 25000);
    pthread_mutex_lock(&replacing);
    current = NULL; /* @clear */
    wait_for(&seed, 1500, 3000);
    current = connect_to(4); /* the old one is kept for the statistics */
    pthread_mutex_unlock(&replacing);
    return NULL;
}

int main(void)
{
    pthread_t threads[16];
    current = connect_to(3);
    for (long i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, i < 8 ? sender : i < 15 ? reader : replacer, (void *)i);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    puts("done");
}
