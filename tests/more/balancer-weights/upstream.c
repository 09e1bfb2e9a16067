/* Choosing a peer by the hash of the client's address. */
#include "upstream.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The network takes from `least` to `most` microseconds to answer. */
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

void upstream_init(struct upstream *up)
{
	memset(up, 0, sizeof *up);
	pthread_mutex_init(&up->lock, NULL);
}

void upstream_add(struct upstream *up, const char *name, unsigned weight)
{
	struct peer *p = &up->peers[up->count++];

	snprintf(p->name, sizeof p->name, "%s", name);
	p->weight = weight;
	up->total_weight += weight;
}

static int peer_answers(const struct peer *p)
{
	wait_us(100, 450);
	return strncmp(p->name, "old", 3) != 0;
}

/* Asks every peer for its health and adds up the weights of those that answer. */
void upstream_check_peers(struct upstream *up)
{
	unsigned total = 0;

	up->total_weight = 0; /* @total-reset */
	for (unsigned i = 0; i < up->count; i++) {
		struct peer *p = &up->peers[i];

		p->down = !peer_answers(p);
		if (!p->down)
			total += p->weight;
	}
	up->generation++;
	up->total_weight = total; /* @total-write */
}

static uint32_t hash_client(const char *client)
{
	uint32_t h = 2166136261u;

	while (*client)
		h = (h ^ (unsigned char)*client++) * 16777619u;
	return h;
}

struct peer *upstream_pick(struct upstream *up, const char *client)
{
	uint32_t hash = hash_client(client);
	unsigned point = hash % up->total_weight; /* @fail */
	struct peer *p = NULL;

	pthread_mutex_lock(&up->lock);
	for (unsigned i = 0; i < up->count; i++) {
		if (up->peers[i].down)
			continue;
		p = &up->peers[i];
		if (point < p->weight)
			break;
		point -= p->weight;
	}
	if (p)
		p->requests++;
	pthread_mutex_unlock(&up->lock);
	return p;
}

void upstream_status(const struct upstream *up)
{
	printf("generation %u, total weight %u:", up->generation, up->total_weight);
	for (unsigned i = 0; i < up->count; i++)
		printf(" %s %u", up->peers[i].name, up->peers[i].requests);
	printf("\n");
}
