/* An event-driven web server: between two requests a connection is in the keep-alive list, where the
 * listener looks after it, and costs no worker. */
#include "queue.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORKERS 2
#define CONNECTIONS 8
#define REQUESTS 2

struct keepalive {
	pthread_mutex_t lock;
	struct connection *first;
	size_t length, longest;
};

static struct fd_queue queue;
static struct keepalive keepalive = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct connection connections[CONNECTIONS];
static atomic_int open_connections = CONNECTIONS;

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* How long a disk or a client takes: from `least` to `most` microseconds. */
static unsigned draw_time(unsigned least, unsigned most)
{
	static _Thread_local uint64_t noise;

	if (noise == 0)
		noise = (now_us() << 20) ^ (uintptr_t)&noise;
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	return least + (unsigned)((noise >> 11) % (most - least));
}

static void io_wait(unsigned least, unsigned most)
{
	struct timespec t = {.tv_nsec = (long)draw_time(least, most) * 1000};

	nanosleep(&t, NULL);
}

static void serve_request(struct connection *c)
{
	io_wait(500, 4500);
	c->served++;
	c->requests_left--;
}

static void close_connection(struct connection *c)
{
	c->next = NULL;
	atomic_fetch_sub(&open_connections, 1);
}

/* Puts a connection back under the listener's care until its client asks again. */
static void keepalive_add(struct keepalive *ka, struct connection *c)
{
	c->ready_at = now_us() + draw_time(1000, 12000);
	pthread_mutex_lock(&ka->lock); /* @worker-wants-list */
	c->next = ka->first;
	ka->first = c;
	ka->length++;
	if (ka->length > ka->longest)
		ka->longest = ka->length;
	pthread_mutex_unlock(&ka->lock);
}

static void *worker(void *arg)
{
	struct fd_queue *q = arg;
	struct connection *c;

	while ((c = queue_pop(q)) != NULL) { /* @pop */
		serve_request(c);
		if (c->requests_left > 0)
			keepalive_add(&keepalive, c); /* @keep */
		else
			close_connection(c);
	}
	return NULL;
}

/* Gives every connection that has something to say to the workers. */
static void dispatch_ready(struct keepalive *ka, struct fd_queue *q)
{
	struct connection **link = &ka->first, *c;
	uint64_t now = now_us();

	pthread_mutex_lock(&ka->lock); /* @listener-has-list */
	while ((c = *link) != NULL) {
		if (c->ready_at > now) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		ka->length--;
		queue_push(q, c); /* @push */
	}
	pthread_mutex_unlock(&ka->lock);
}

static void *listener(void *arg)
{
	struct fd_queue *q = arg;

	for (int i = 0; i < CONNECTIONS; i++) {
		io_wait(200, 1500);
		connections[i].number = i;
		connections[i].requests_left = REQUESTS;
		queue_push(q, &connections[i]);
	}
	while (atomic_load(&open_connections) > 0) {
		io_wait(1000, 3500);
		dispatch_ready(&keepalive, q); /* @dispatch */
	}
	queue_term(q);
	return NULL;
}

static void print_status(const struct keepalive *ka)
{
	unsigned total = 0;

	for (int i = 0; i < CONNECTIONS; i++)
		total += connections[i].served;
	printf("%u requests served, keep-alive list %zu long, %zu at most\n", total, ka->length, ka->longest);
}

int main(void)
{
	pthread_t workers[WORKERS], listening;

	queue_init(&queue);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, worker, &queue);
	pthread_create(&listening, NULL, listener, &queue);
	pthread_join(listening, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	print_status(&keepalive);
	return 0;
}
