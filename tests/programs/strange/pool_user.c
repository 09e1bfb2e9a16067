/* Uses a pool until somebody closes it; does not wait for its threads first. Given a path, it loads the library.
   MASKED: its threads leave all signals to others. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"

static struct pool *(*open_pool)(int);
static void (*use_pool)(struct pool *, int);
static void (*close_pool)(struct pool *);

static void *user(void *pool)
{
#ifdef MASKED
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
#endif
    for (int i = 0; i < 8; i++) {
        use_pool(pool, i);
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
#ifdef LINKED
    (void)argc, (void)argv;
    open_pool = pool_open, use_pool = pool_use, close_pool = pool_close;
#else
    void *library = dlopen(argc > 1 ? argv[1] : "./libpool.so", RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 2;
    *(void **)&open_pool = dlsym(library, "pool_open");
    *(void **)&use_pool = dlsym(library, "pool_use");
    *(void **)&close_pool = dlsym(library, "pool_close");
#endif
    struct pool *pool = open_pool(4);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, user, pool);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(5000 + (unsigned)now.tv_nsec / 64 % 45000);
    close_pool(pool);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts("done");
}
