/* A chained hash table of names. Entries stay; what they hold comes and goes. */
#include "dns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_name(const char *name, enum rr_type type)
{
	uint32_t h = 2166136261u ^ (uint32_t)type;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h;
}

struct cache *cache_create(size_t buckets)
{
	struct cache *c = calloc(1, sizeof *c);

	if (!c || buckets & (buckets - 1))
		abort();
	pthread_mutex_init(&c->lock, NULL);
	c->mask = buckets - 1;
	c->buckets = calloc(buckets, sizeof *c->buckets);
	if (!c->buckets)
		abort();
	return c;
}

/* The entry of a name, an empty one if it is new. */
struct entry *cache_find(struct cache *c, const char *name, enum rr_type type)
{
	uint32_t hash = hash_name(name, type);
	struct entry *e;

	pthread_mutex_lock(&c->lock);
	for (e = c->buckets[hash & c->mask]; e; e = e->next)
		if (e->hash == hash && e->type == type && strcmp(e->name, name) == 0)
			break;
	if (!e) {
		e = calloc(1, sizeof *e);
		if (!e)
			abort();
		e->hash = hash;
		e->type = type;
		snprintf(e->name, sizeof e->name, "%s", name);
		e->next = c->buckets[hash & c->mask];
		c->buckets[hash & c->mask] = e;
		c->used++;
	}
	pthread_mutex_unlock(&c->lock);
	return e;
}

void cache_store(struct cache *c, struct entry *e, struct rdata *data)
{
	pthread_mutex_lock(&c->lock);
	if (e->data)
		free(data); /* somebody else was faster */
	else
		e->data = data;
	pthread_mutex_unlock(&c->lock);
}

static int has_expired(const struct rdata *data, uint32_t now)
{
	return now - data->stored_msec >= data->ttl_msec;
}

static void expire(struct cache *c, struct entry *e)
{
	struct rdata *old = e->data;

	e->data = NULL; /* @expire */
	c->expired++;
	free(old);
}

/* Forgets what is too old; returns how much that was. */
unsigned cache_sweep(struct cache *c, uint32_t now)
{
	unsigned before;

	pthread_mutex_lock(&c->lock);
	before = c->expired;
	for (size_t i = 0; i <= c->mask; i++)
		for (struct entry *e = c->buckets[i]; e; e = e->next)
			if (e->data && has_expired(e->data, now))
				expire(c, e); /* @call-expire */
	before = c->expired - before;
	pthread_mutex_unlock(&c->lock);
	return before;
}

void cache_dump(struct cache *c)
{
	char line[160];

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i <= c->mask; i++) {
		for (struct entry *e = c->buckets[i]; e; e = e->next) {
			snprintf(line, sizeof line, "%s", e->data ? "held" : "expired");
			printf("%-14s %-4s %u/%u %s\n", e->name, rr_table[e->type].mnemonic, atomic_load(&e->hits),
			       atomic_load(&e->misses), line);
		}
	}
	printf("%u names, %u expiries\n", c->used, c->expired);
	pthread_mutex_unlock(&c->lock);
}

void cache_destroy(struct cache *c)
{
	for (size_t i = 0; i <= c->mask; i++) {
		struct entry *e = c->buckets[i];

		while (e) {
			struct entry *next = e->next;

			free(e->data);
			free(e);
			e = next;
		}
	}
	pthread_mutex_destroy(&c->lock);
	free(c->buckets);
	free(c);
}
