#ifndef FDQUEUE_H
#define FDQUEUE_H

#include <pthread.h>

#define QUEUE_MAX 8

struct conn {
	int fd;
	unsigned client;
};

struct fd_queue {
	pthread_mutex_t mutex;
	pthread_cond_t not_empty, not_full;
	struct conn data[QUEUE_MAX];
	unsigned in, out;
	unsigned nelts, bounds;
	int terminated;
};

void fd_queue_init(struct fd_queue *q, unsigned bounds);
void fd_queue_wait_room(struct fd_queue *q);
void fd_queue_push(struct fd_queue *q, struct conn c);
int fd_queue_pop(struct fd_queue *q, struct conn *c);
void fd_queue_term(struct fd_queue *q);

#endif
