#ifndef UPSTREAM_H
#define UPSTREAM_H

#include <pthread.h>
#include <stdint.h>

#define MAX_PEERS 6

struct peer {
	char name[24];
	unsigned weight;
	unsigned requests;
	int down;
};

/* Servers that answer the same requests, each by its weight. */
struct upstream {
	pthread_mutex_t lock;
	struct peer peers[MAX_PEERS];
	unsigned count;
	unsigned total_weight;
	unsigned generation;
};

void wait_us(unsigned least, unsigned most);

void upstream_init(struct upstream *up);
void upstream_add(struct upstream *up, const char *name, unsigned weight);
void upstream_check_peers(struct upstream *up);
struct peer *upstream_pick(struct upstream *up, const char *client);
void upstream_status(const struct upstream *up);

#endif
