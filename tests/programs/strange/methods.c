/* A table of functions that is said to be there before it is filled in: whoever comes in between calls a null pointer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct methods {
    int (*create)(int size);
    int (*fetch)(int page);
};

static struct {
    int ready;
    struct methods cache;
} config;

static int plain_create(int size) { return size / 2; }
static int plain_fetch(int page) { return page + 1; }

static void pause_for(unsigned longest)
{
    unsigned seed;
    if (getentropy(&seed, sizeof seed) == 0)
        usleep(seed % longest);
}

static void initialise(void)
{
    config.ready = 1;
    pause_for(1500);
    config.cache = (struct methods){plain_create, plain_fetch}; /* @fill */
}

static int open_cache(int size)
{
    return config.cache.create(size); /* @call */
}

static int look_up(int page)
{
    return config.cache.fetch(page);
}

static void *client(void *unused)
{
    pause_for(20000);
    while (!config.ready)
        pause_for(6000);
    int sum = open_cache(64);
    for (int page = 0; page < 3; page++)
        sum += look_up(page);
    printf("%d\n", sum);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, client, NULL);
    pause_for(12000);
    initialise();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
