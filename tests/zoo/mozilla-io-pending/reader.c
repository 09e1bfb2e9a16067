/* Asynchronous file reads: a transfer is started, and its completion clears io_pending. */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHUNK 2048
#define CHUNKS 2
#define PATIENCE_MSEC 150

struct file {
	const char *name;
	size_t position;
	unsigned requests;
	unsigned char data[CHUNK * CHUNKS];
};

struct transfer {
	pthread_t completion;
	struct file *file;
	size_t offset;
	unsigned char buffer[CHUNK];
};

static int io_pending;

/* The device takes from `least` to `most` microseconds for a request. */
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

static void *complete_transfer(void *arg)
{
	struct transfer *t = arg;

	device_wait(1000, 7000);
	memcpy(t->buffer, t->file->data + t->offset, CHUNK);
	io_pending = 0; /* @done */
	return NULL;
}

static void start_transfer(struct transfer *t, struct file *f)
{
	t->file = f;
	t->offset = f->position;
	pthread_create(&t->completion, NULL, complete_transfer, t); /* @start */
}

static void update_access_time(struct file *f)
{
	f->requests++;
	device_wait(200, 2800);
}

static void await_transfer(void)
{
	for (int waited = 0; waited < PATIENCE_MSEC && io_pending; waited++) /* @poll */
		device_wait(1000, 1100);
	assert(!io_pending); /* @fail */
}

static uint32_t read_chunk(struct file *f)
{
	struct transfer t;
	uint32_t sum = 0;

	start_transfer(&t, f);
	update_access_time(f);
	io_pending = 1; /* @pending */
	await_transfer(); /* @wait */
	pthread_join(t.completion, NULL);
	for (size_t i = 0; i < CHUNK; i++)
		sum = sum * 31 + t.buffer[i];
	f->position += CHUNK;
	return sum;
}

static void print_digest(const struct file *f, uint32_t sum)
{
	printf("%s: %zu bytes in %u requests, sum %08x%s\n", f->name, f->position, f->requests, sum,
	       io_pending ? ", still busy" : "");
	io_pending = 0;
}

int main(void)
{
	static struct file f = {.name = "profile.dat"};
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof f.data; i++)
		f.data[i] = (unsigned char)(i * 7 + (i >> 8));
	while (f.position < sizeof f.data)
		sum ^= read_chunk(&f); /* @chunk */
	print_digest(&f, sum);
	return 0;
}
