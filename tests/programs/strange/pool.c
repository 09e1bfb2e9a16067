/* The library: closing a pool takes its buffers away while others still use them. */
#include "pool.h"

#include <stdlib.h>

struct pool {
    int buffers;
    char **memory;
};

struct pool *pool_open(int buffers)
{
    struct pool *pool = malloc(sizeof *pool);
    pool->buffers = buffers;
    pool->memory = calloc((size_t)buffers, sizeof *pool->memory);
    for (int i = 0; i < buffers; i++)
        pool->memory[i] = calloc(1, 64);
    return pool;
}

void pool_use(struct pool *pool, int number)
{
    char *buffer = pool->memory[number % pool->buffers]; /* @use */
    (*buffer)++;
}

void pool_close(struct pool *pool)
{
    pool->memory = NULL; /* @close */
}
