/* The file cache of a small web server. */
#ifndef CACHE_H
#define CACHE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define CACHE_BUCKETS 8
#define KEY_SIZE 32

struct cached_file {
	size_t size;
	time_t modified;
	char *data;
};

struct cache_node {
	char key[KEY_SIZE];
	struct cached_file *file; /* NULL while nothing is in memory */
	uint64_t last_used;       /* microseconds */
	unsigned hits, loads;
	struct cache_node *next;
};

struct cache {
	pthread_mutex_t lock;
	struct cache_node *buckets[CACHE_BUCKETS];
	size_t bytes;
	unsigned expired;
};

void cache_init(struct cache *cache);
struct cache_node *cache_lookup(struct cache *cache, const char *key);
void cache_load(struct cache *cache, struct cache_node *node);
unsigned cache_expire(struct cache *cache, uint64_t inactive);
void cache_print(struct cache *cache);

uint64_t now_us(void);
void io_wait(unsigned least, unsigned most);

#endif
