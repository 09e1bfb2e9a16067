/* A pool of buffers, as a library. */
struct pool;
struct pool *pool_open(int buffers);
void pool_use(struct pool *pool, int number);
void pool_close(struct pool *pool);
