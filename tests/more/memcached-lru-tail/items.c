/* Items and the list in which they age. */
#include "items.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Clients and disks take from `least` to `most` microseconds. */
void wait_us(unsigned least, unsigned most)
{
	static _Thread_local uint64_t noise;
	struct timespec t;

	if (noise == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		noise = ((uint64_t)t.tv_nsec << 20) ^ (uintptr_t)&noise;
	}
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	t.tv_sec = 0;
	t.tv_nsec = (long)(least + (noise >> 11) % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

void lru_init(struct lru *l)
{
	memset(l, 0, sizeof *l);
	pthread_mutex_init(&l->lock, NULL);
}

void item_link(struct lru *l, const char *key, size_t size)
{
	struct item *it = calloc(1, sizeof *it);

	it->size = size;
	strncpy(it->key, key, sizeof it->key - 1);
	pthread_mutex_lock(&l->lock);
	it->next = l->head;
	if (l->head)
		l->head->prev = it;
	else
		l->tail = it; /* @tail-link */
	l->head = it;
	l->bytes += size;
	pthread_mutex_unlock(&l->lock);
}

static void unlink_locked(struct lru *l, struct item *it)
{
	if (it->prev)
		it->prev->next = it->next;
	else
		l->head = it->next;
	if (it->next)
		it->next->prev = it->prev;
	else
		l->tail = it->prev; /* @tail-unlink */
	l->bytes -= it->size;
}

int item_delete(struct lru *l, const char *key)
{
	struct item *it;

	pthread_mutex_lock(&l->lock);
	for (it = l->head; it; it = it->next)
		if (strcmp(it->key, key) == 0)
			break;
	if (it)
		unlink_locked(l, it); /* @unlink */
	pthread_mutex_unlock(&l->lock);
	free(it);
	return it != NULL;
}

/* Evictions are announced to those who watch the server. */
void log_eviction(const struct lru *l)
{
	char line[64];

	snprintf(line, sizeof line, "evict number %zu\n", l->evicted + 1);
	wait_us(200, 900);
}

/* Drops the oldest item; returns how much that gave. */
size_t lru_evict(struct lru *l)
{
	struct item *it;
	size_t size;

	if (l->tail == NULL) /* @tail-check */
		return 0;
	log_eviction(l);
	pthread_mutex_lock(&l->lock);
	it = l->tail; /* @tail-read */
	size = it->size; /* @fail */
	unlink_locked(l, it);
	l->evicted++;
	pthread_mutex_unlock(&l->lock);
	free(it);
	return size;
}

void lru_stats(const struct lru *l)
{
	printf("%zu bytes, %zu evicted, oldest %s\n", l->bytes, l->evicted, l->tail ? l->tail->key : "none");
}

void lru_clear(struct lru *l)
{
	while (l->head) {
		struct item *it = l->head;

		l->head = it->next;
		free(it);
	}
	l->tail = NULL;
	pthread_mutex_destroy(&l->lock);
}
