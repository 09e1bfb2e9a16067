/* The queue between the listeners and the workers: no connection is accepted before there is room for it. */
#include <assert.h>
#include "fdqueue.h"

void fd_queue_init(struct fd_queue *q, unsigned bounds)
{
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
	q->bounds = bounds;
}

/* Returns when a connection may be accepted. */
void fd_queue_wait_room(struct fd_queue *q)
{
	pthread_mutex_lock(&q->mutex);
	while (q->nelts >= q->bounds) /* @room */
		pthread_cond_wait(&q->not_full, &q->mutex);
	pthread_mutex_unlock(&q->mutex);
}

void fd_queue_push(struct fd_queue *q, struct conn c)
{
	pthread_mutex_lock(&q->mutex);
	assert(q->nelts < q->bounds); /* @fail */
	q->data[q->in] = c;
	q->in = (q->in + 1) % QUEUE_MAX;
	q->nelts++; /* @add */
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->mutex);
}

int fd_queue_pop(struct fd_queue *q, struct conn *c)
{
	int found = 0;

	pthread_mutex_lock(&q->mutex);
	while (q->nelts == 0 && !q->terminated)
		pthread_cond_wait(&q->not_empty, &q->mutex);
	if (q->nelts > 0) {
		*c = q->data[q->out];
		q->out = (q->out + 1) % QUEUE_MAX;
		q->nelts--;
		found = 1;
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->mutex);
	return found;
}

void fd_queue_term(struct fd_queue *q)
{
	pthread_mutex_lock(&q->mutex);
	q->terminated = 1;
	pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->mutex);
}
