/* A web server's process: a listener for each address, workers that serve the connections. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include "fdqueue.h"

#define WORKERS 2
#define PER_LISTENER 4

struct listener {
	const char *address;
	unsigned first_client;
	int next_fd;
};

static struct fd_queue worker_queue;
static atomic_uint served;
static atomic_ulong bytes;

static struct listener listeners[] = {{"0.0.0.0:80", 100, 10}, {"0.0.0.0:8080", 200, 40}};
#define LISTENERS (sizeof listeners / sizeof listeners[0])

static uint64_t scramble(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void network_delay(unsigned least, unsigned most)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec = (long)(least + scramble((uint64_t)t.tv_nsec) % (most - least)) * 1000;
	t.tv_sec = 0;
	nanosleep(&t, NULL);
}

static struct conn accept_connection(struct listener *l)
{
	struct conn c;

	network_delay(300, 4000);
	c.fd = l->next_fd++;
	c.client = l->first_client + (unsigned)c.fd;
	return c;
}

static void *listen_on(void *arg)
{
	struct listener *l = arg;

	for (int i = 0; i < PER_LISTENER; i++) {
		fd_queue_wait_room(&worker_queue); /* @wait-room */
		fd_queue_push(&worker_queue, accept_connection(l)); /* @push */
	}
	return NULL;
}

static unsigned long process(const struct conn *c)
{
	network_delay(400, 5500);
	return 400 + c->client % 7 * 100;
}

static void *worker(void *arg)
{
	struct fd_queue *q = arg;
	struct conn c;

	while (fd_queue_pop(q, &c)) {
		bytes += process(&c);
		served++;
	}
	return NULL;
}

static void print_scoreboard(const struct fd_queue *q)
{
	printf("%u connections, %lu bytes, %u of %u queued\n", served, bytes, q->nelts, q->bounds);
}

int main(void)
{
	pthread_t listening[LISTENERS], working[WORKERS];

	fd_queue_init(&worker_queue, WORKERS);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_create(&working[i], NULL, worker, &worker_queue);
	for (unsigned i = 0; i < LISTENERS; i++)
		pthread_create(&listening[i], NULL, listen_on, &listeners[i]);
	for (unsigned i = 0; i < LISTENERS; i++)
		pthread_join(listening[i], NULL);
	fd_queue_term(&worker_queue);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(working[i], NULL);
	print_scoreboard(&worker_queue);
	return 0;
}
