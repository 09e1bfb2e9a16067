/* A parallel block compressor: main cuts the input into blocks, consumers compress them. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCK_SIZE 512
#define BLOCKS 10
#define QUEUE_SIZE 3
#define CONSUMERS 2

struct block {
	size_t number;
	unsigned char data[BLOCK_SIZE];
};

struct queue {
	struct block *slots[QUEUE_SIZE];
	size_t head, count;
	int finished;
	pthread_mutex_t *mut;
	pthread_cond_t *changed;
};

static unsigned char packed[BLOCKS][2 * BLOCK_SIZE];
static size_t packed_size[BLOCKS];

/* The output device takes from `least` to `most` microseconds for a request. */
static void device_wait(unsigned least, unsigned most)
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

static struct queue *queue_init(void)
{
	struct queue *q = calloc(1, sizeof *q);

	q->mut = malloc(sizeof *q->mut); /* @init */
	pthread_mutex_init(q->mut, NULL);
	q->changed = malloc(sizeof *q->changed);
	pthread_cond_init(q->changed, NULL);
	return q;
}

static void queue_delete(struct queue *q)
{
	pthread_mutex_destroy(q->mut);
	free(q->mut); /* @free */
	q->mut = NULL; /* @clear */
	pthread_cond_destroy(q->changed);
	free(q->changed);
	q->changed = NULL;
}

static void queue_add(struct queue *q, struct block *b)
{
	pthread_mutex_lock(q->mut);
	while (q->count == QUEUE_SIZE)
		pthread_cond_wait(q->changed, q->mut);
	q->slots[(q->head + q->count++) % QUEUE_SIZE] = b;
	pthread_cond_broadcast(q->changed);
	pthread_mutex_unlock(q->mut);
}

static struct block *queue_take(struct queue *q)
{
	struct block *b = NULL;

	pthread_mutex_lock(q->mut); /* @fail */
	while (q->count == 0 && !q->finished)
		pthread_cond_wait(q->changed, q->mut);
	if (q->count > 0) {
		b = q->slots[q->head];
		q->head = (q->head + 1) % QUEUE_SIZE;
		q->count--;
		pthread_cond_broadcast(q->changed);
	}
	pthread_mutex_unlock(q->mut);
	return b;
}

static void queue_finish(struct queue *q)
{
	pthread_mutex_lock(q->mut);
	q->finished = 1;
	pthread_cond_broadcast(q->changed);
	while (q->count > 0)
		pthread_cond_wait(q->changed, q->mut);
	pthread_mutex_unlock(q->mut);
}

/* Run-length encoding: a count and a byte for each run. */
static size_t compress_block(const struct block *b)
{
	unsigned char *out = packed[b->number];
	size_t used = 0;

	for (size_t i = 0, run; i < BLOCK_SIZE; i += run) {
		for (run = 1; run < 255 && i + run < BLOCK_SIZE; run++)
			if (b->data[i + run] != b->data[i])
				break;
		out[used++] = (unsigned char)run;
		out[used++] = b->data[i];
	}
	device_wait(500, 3000);
	return used;
}

static void *consumer(void *arg)
{
	struct queue *q = arg; /* @arg */
	struct block *b;

	while ((b = queue_take(q)) != NULL) { /* @take */
		packed_size[b->number] = compress_block(b);
		free(b);
	}
	return NULL;
}

static struct block *read_block(size_t number)
{
	struct block *b = malloc(sizeof *b);

	b->number = number;
	for (size_t i = 0; i < BLOCK_SIZE; i++)
		b->data[i] = (unsigned char)('a' + (i >> (number % 5)) % 7);
	return b;
}

static void write_trailer(void)
{
	device_wait(1500, 3500);
}

static void print_summary(const struct queue *q)
{
	size_t total = 0;

	for (size_t i = 0; i < BLOCKS; i++)
		total += packed_size[i];
	printf("%d blocks, %d bytes in, %zu out, queue %s\n", BLOCKS, BLOCKS * BLOCK_SIZE, total,
	       q->mut ? "open" : "closed");
}

int main(void)
{
	pthread_t consumers[CONSUMERS];
	struct queue *fifo = queue_init(); /* @queue */

	for (int i = 0; i < CONSUMERS; i++)
		pthread_create(&consumers[i], NULL, consumer, fifo); /* @create */
	for (size_t i = 0; i < BLOCKS; i++)
		queue_add(fifo, read_block(i));
	queue_finish(fifo);
	write_trailer();
	queue_delete(fifo); /* @delete */
	for (int i = 0; i < CONSUMERS; i++)
		pthread_join(consumers[i], NULL);
	print_summary(fifo);
	free(fifo);
	return 0;
}
