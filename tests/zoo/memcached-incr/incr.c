/* A memory cache: connections increment counters; item locks are meant to keep items consistent. */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BUCKETS 16
#define LOCKS 4
#define CONNECTIONS 2
#define COMMANDS 2

struct item {
	char key[24];
	uint64_t value;
	unsigned accesses;
};

struct conn {
	unsigned id;
	const char *key;
	uint64_t added;
};

static struct item items[BUCKETS];
static pthread_mutex_t item_locks[LOCKS];

/* A request to the network takes from `least` to `most` microseconds. */
static void net_wait(unsigned least, unsigned most)
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

static uint32_t hash(const char *key)
{
	uint32_t h = 2166136261u;

	while (*key)
		h = (h ^ (unsigned char)*key++) * 16777619u;
	return h;
}

static struct item *item_get(const char *key)
{
	return &items[hash(key) % BUCKETS];
}

static void item_set(const char *key, uint64_t value)
{
	struct item *it = item_get(key);

	strncpy(it->key, key, sizeof it->key - 1);
	it->value = value;
}

static void replicate(const char *key, uint64_t value)
{
	char command[64];

	snprintf(command, sizeof command, "set %s %lu\r\n", key, (unsigned long)value);
	net_wait(200, 900);
}

static void add_delta(struct conn *c, uint64_t delta)
{
	struct item *it = item_get(c->key);
	pthread_mutex_t *lock = &item_locks[c->id % LOCKS];
	uint64_t value;

	pthread_mutex_lock(lock); /* @lock */
	value = it->value + delta; /* @read */
	it->accesses++;
	replicate(c->key, value);
	it->value = value; /* @store */
	pthread_mutex_unlock(lock);
	c->added += delta;
}

static void *connection(void *arg)
{
	struct conn *c = arg;

	for (unsigned i = 0; i < COMMANDS; i++) {
		net_wait(500, 18000);
		add_delta(c, 1 + c->id); /* @add */
	}
	return NULL;
}

static void verify_counter(const char *key, uint64_t expected)
{
	uint64_t total = item_get(key)->value; /* @total */

	net_wait(100, 200);
	assert(total == expected); /* @fail */
}

static void dump_items(void)
{
	for (int i = 0; i < BUCKETS; i++)
		if (items[i].accesses)
			printf("%s = %lu\n", items[i].key, (unsigned long)items[i].value);
	items[0].value = 0;
}

int main(void)
{
	pthread_t threads[CONNECTIONS];
	struct conn conns[CONNECTIONS] = {{0, "page:hits", 0}, {1, "page:hits", 0}};
	uint64_t expected = 0;

	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&item_locks[i], NULL);
	item_set("page:hits", 0);
	for (int i = 0; i < CONNECTIONS; i++)
		pthread_create(&threads[i], NULL, connection, &conns[i]); /* @create */
	for (int i = 0; i < CONNECTIONS; i++) {
		pthread_join(threads[i], NULL);
		expected += conns[i].added;
	}
	verify_counter("page:hits", expected); /* @verify */
	dump_items();
	return 0;
}
