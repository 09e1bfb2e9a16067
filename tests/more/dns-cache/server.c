/* A caching name server: threads that answer clients, one that sweeps the cache. */
#include "dns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 2
#define QUERIES 6

struct question {
	const char *name;
	enum rr_type type;
};

struct client {
	struct cache *cache;
	unsigned number;
	pthread_t thread;
	size_t bytes_out;
	unsigned failures;
};

static const struct question questions[] = {
	{"www.example", RR_A}, {"mail.example", RR_A}, {"www.example", RR_A},
	{"cdn.example", RR_A}, {"www.example", RR_A}, {"mail.example", RR_A},
	{"cdn.example", RR_A}, {"mail.example", RR_A},
};
#define QUESTIONS (sizeof questions / sizeof questions[0])

/* The query log is on a disk that others use as well. */
static void log_query(struct entry *e, const struct client *cl)
{
	char line[96];

	snprintf(line, sizeof line, "client %u: %s %s", cl->number, e->name, rr_table[e->type].mnemonic);
	atomic_fetch_add(&e->hits, 1);
	idle_usec(400, 2000);
}

static void refill(struct cache *c, struct entry *e)
{
	struct rdata *data;

	atomic_fetch_add(&e->misses, 1);
	idle_usec(100, 900);
	data = zone_resolve(e->name, e->type, now_msec());
	if (data)
		cache_store(c, e, data);
}

/* Returns the length of the answer in `out`, 0 if there is none. */
static size_t answer(struct client *cl, const struct question *q, char *out, size_t room)
{
	struct entry *e = cache_find(cl->cache, q->name, q->type);

	if (e->data == NULL) { /* @check */
		refill(cl->cache, e);
		return 0; /* the client asks again */
	}
	log_query(e, cl);
	return rr_table[e->type].format(e->data, out, room); /* @read */
}

static void *serve_client(void *arg)
{
	struct client *cl = arg;
	char out[256];

	for (unsigned i = 0; i < QUERIES; i++) {
		const struct question *q = &questions[(i + 3 * cl->number) % QUESTIONS];
		size_t length;

		idle_usec(0, 7000);
		length = answer(cl, q, out, sizeof out); /* @answer */
		if (length)
			cl->bytes_out += length;
		else
			cl->failures++;
	}
	return NULL;
}

static void *sweeper(void *arg)
{
	struct cache *c = arg;

	idle_usec(9000, 55000);
	cache_sweep(c, now_msec()); /* @sweep */
	return NULL;
}

static void print_clients(const struct client *clients)
{
	for (int i = 0; i < CLIENTS; i++)
		printf("client %u: %zu bytes, %u to ask again\n", clients[i].number, clients[i].bytes_out,
		       clients[i].failures);
}

static void warm_up(struct cache *c)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		struct entry *e = cache_find(c, questions[i].name, questions[i].type);

		if (!e->data)
			refill(c, e);
	}
}

int main(void)
{
	struct cache *c = cache_create(16);
	struct client clients[CLIENTS];
	pthread_t sweeping;

	warm_up(c);
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){.cache = c, .number = i};
		if (pthread_create(&clients[i].thread, NULL, serve_client, &clients[i]))
			return 1;
	}
	if (pthread_create(&sweeping, NULL, sweeper, c))
		return 1;
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i].thread, NULL);
	pthread_join(sweeping, NULL);
	print_clients(clients);
	cache_dump(c);
	cache_destroy(c);
	return 0;
}
