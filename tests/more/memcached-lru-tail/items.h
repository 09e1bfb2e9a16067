#ifndef ITEMS_H
#define ITEMS_H

#include <pthread.h>
#include <stddef.h>

struct item {
	struct item *next, *prev;
	size_t size;
	char key[32];
};

/* The items of one size class, the most recently used one first. */
struct lru {
	pthread_mutex_t lock;
	struct item *head, *tail;
	size_t bytes, evicted;
};

void wait_us(unsigned least, unsigned most);

void lru_init(struct lru *l);
void item_link(struct lru *l, const char *key, size_t size);
int item_delete(struct lru *l, const char *key);
void log_eviction(const struct lru *l);
size_t lru_evict(struct lru *l);
void lru_stats(const struct lru *l);
void lru_clear(struct lru *l);

#endif
