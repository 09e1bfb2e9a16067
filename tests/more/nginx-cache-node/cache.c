/* Nodes are found by key and stay for good; their files come and go. */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* A disk or a client takes from `least` to `most` microseconds. */
void io_wait(unsigned least, unsigned most)
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

static unsigned hash_key(const char *key)
{
	unsigned h = 2166136261u;

	while (*key)
		h = (h ^ (unsigned char)*key++) * 16777619u;
	return h % CACHE_BUCKETS;
}

void cache_init(struct cache *cache)
{
	memset(cache, 0, sizeof *cache);
	pthread_mutex_init(&cache->lock, NULL);
}

struct cache_node *cache_lookup(struct cache *cache, const char *key)
{
	unsigned bucket = hash_key(key);
	struct cache_node *node;

	pthread_mutex_lock(&cache->lock);
	for (node = cache->buckets[bucket]; node; node = node->next)
		if (strcmp(node->key, key) == 0)
			break;
	if (!node) {
		node = calloc(1, sizeof *node);
		snprintf(node->key, sizeof node->key, "%s", key);
		node->next = cache->buckets[bucket];
		cache->buckets[bucket] = node;
	}
	node->hits++;
	node->last_used = now_us();
	pthread_mutex_unlock(&cache->lock);
	return node;
}

static struct cached_file *read_file(const char *path)
{
	struct cached_file *file;

	if (*path != '/')
		return NULL;
	file = calloc(1, sizeof *file);
	io_wait(200, 900);
	file->size = 1024 + 256 * (strlen(path) % 5);
	file->modified = time(NULL);
	file->data = malloc(file->size);
	for (size_t i = 0; i < file->size; i++)
		file->data[i] = path[i % strlen(path)];
	return file;
}

static void free_file(struct cached_file *file)
{
	free(file->data);
	free(file);
}

/* Brings the node's file into memory; two workers may try at once, one wins. */
void cache_load(struct cache *cache, struct cache_node *node)
{
	struct cached_file *file = read_file(node->key);

	if (!file)
		return;
	pthread_mutex_lock(&cache->lock);
	if (node->file) {
		free_file(file);
	} else {
		node->file = file; /* @load */
		node->loads++;
		cache->bytes += file->size;
	}
	pthread_mutex_unlock(&cache->lock);
}

static int is_inactive(const struct cache_node *node, uint64_t now, uint64_t inactive)
{
	return node->file != NULL && now - node->last_used > inactive;
}

static void drop_file(struct cache *cache, struct cache_node *node)
{
	struct cached_file *file = node->file;

	node->file = NULL; /* @drop */
	cache->bytes -= file->size;
	cache->expired++;
	free_file(file);
}

/* Lets go of the files that nobody has asked for lately. */
unsigned cache_expire(struct cache *cache, uint64_t inactive)
{
	uint64_t now = now_us();
	unsigned dropped = 0;

	pthread_mutex_lock(&cache->lock);
	for (size_t i = 0; i < CACHE_BUCKETS; i++)
		for (struct cache_node *node = cache->buckets[i]; node; node = node->next)
			if (is_inactive(node, now, inactive)) {
				drop_file(cache, node); /* @inactive */
				dropped++;
			}
	pthread_mutex_unlock(&cache->lock);
	return dropped;
}

void cache_print(struct cache *cache)
{
	for (size_t i = 0; i < CACHE_BUCKETS; i++)
		for (struct cache_node *node = cache->buckets[i]; node; node = node->next)
			printf("%-16s %u hits, %u loads, %s\n", node->key, node->hits, node->loads,
			       node->file ? "in memory" : "on disk");
	printf("%zu bytes, %u expired\n", cache->bytes, cache->expired);
}
