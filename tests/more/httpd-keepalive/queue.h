/* The queue between the listener and the workers, and the connections in it. */
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_ROOM 2

struct connection {
	int number;
	int requests_left;
	unsigned served;
	uint64_t ready_at; /* when its client asks again */
	struct connection *next;
};

struct fd_queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	struct connection *slots[QUEUE_ROOM];
	size_t head, count;
	int terminated;
};

void queue_init(struct fd_queue *q);
void queue_push(struct fd_queue *q, struct connection *c);
struct connection *queue_pop(struct fd_queue *q);
void queue_term(struct fd_queue *q);

#endif
