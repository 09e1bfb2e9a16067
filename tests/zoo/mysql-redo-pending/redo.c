/* A redo log: transactions append their records and wait until these are on disk. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOG_SIZE 4096
#define TRANSACTIONS 2
#define COMMITS 2

struct record {
	size_t length;
	char body[64];
};

static struct {
	pthread_mutex_t lock;
	char buffer[LOG_SIZE];
	size_t end;
	size_t pending;
	atomic_uint flushes;
} redo = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The disk takes from `least` to `most` microseconds for a request. */
static void disk_wait(unsigned least, unsigned most)
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

static size_t reserve(size_t length)
{
	size_t at;

	pthread_mutex_lock(&redo.lock);
	at = redo.end;
	redo.end += length;
	pthread_mutex_unlock(&redo.lock);
	return at;
}

/* Writes what is pending and returns how much that was. */
static size_t flush_pending(void)
{
	size_t length;

	disk_wait(200, 1200);
	length = redo.pending; /* @read-back */
	atomic_fetch_add(&redo.flushes, 1);
	return length;
}

static void append_record(const struct record *rec)
{
	size_t at = reserve(rec->length), written;

	memcpy(redo.buffer + at, rec->body, rec->length);
	redo.pending = rec->length; /* @pending */
	written = flush_pending(); /* @flush */
	assert(written == rec->length); /* @fail */
}

static void make_record(struct record *rec, unsigned transaction, unsigned number)
{
	int length = snprintf(rec->body, sizeof rec->body, "update row %u of %0*u", number,
			      (int)(4 + 4 * transaction), transaction);

	rec->length = (size_t)length;
}

static void *transaction(void *arg)
{
	unsigned id = *(unsigned *)arg;
	struct record rec;

	for (unsigned i = 0; i < COMMITS; i++) {
		disk_wait(500, 18000);
		make_record(&rec, id, i);
		append_record(&rec); /* @append */
	}
	return NULL;
}

static void print_log(void)
{
	redo.pending = 0;
	printf("%zu bytes in %u flushes: %.*s...\n", redo.end, redo.flushes, 20, redo.buffer);
}

int main(void)
{
	pthread_t threads[TRANSACTIONS];
	unsigned ids[TRANSACTIONS];

	for (unsigned i = 0; i < TRANSACTIONS; i++) {
		ids[i] = i;
		pthread_create(&threads[i], NULL, transaction, &ids[i]);
	}
	for (unsigned i = 0; i < TRANSACTIONS; i++)
		pthread_join(threads[i], NULL);
	print_log();
	return 0;
}
