#include "queue.h"

#include <string.h>

void queue_init(struct fd_queue *q)
{
	memset(q, 0, sizeof *q);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
}

/* Hands a connection to the workers; waits while the queue is full. */
void queue_push(struct fd_queue *q, struct connection *c)
{
	pthread_mutex_lock(&q->lock);
	while (q->count == QUEUE_ROOM) /* @full */
		pthread_cond_wait(&q->not_full, &q->lock); /* @listener-wants-room */
	q->slots[(q->head + q->count) % QUEUE_ROOM] = c;
	q->count++;
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

struct connection *queue_pop(struct fd_queue *q)
{
	struct connection *c = NULL;

	pthread_mutex_lock(&q->lock);
	while (q->count == 0 && !q->terminated)
		pthread_cond_wait(&q->not_empty, &q->lock);
	if (q->count > 0) {
		c = q->slots[q->head];
		q->head = (q->head + 1) % QUEUE_ROOM;
		q->count--;
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->lock);
	return c;
}

void queue_term(struct fd_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->terminated = 1;
	pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}
