/* A torrent session: an event thread shares out the bandwidth, pulse by pulse. */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BANDWIDTH_MAGIC 0xba4d
#define PULSES 4
#define PULSE_MSEC 500
#define PEERS 8

struct bandwidth {
	unsigned magic;
	unsigned bytes_per_msec;
	unsigned left;
	unsigned long granted;
};

struct session {
	unsigned long peer_bytes[PEERS];
	unsigned speed_limit;
	struct bandwidth *bandwidth;
	pthread_t events;
};

/* A request to the disk or the network takes from `least` to `most` microseconds. */
static void io_wait(unsigned least, unsigned most)
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

static struct bandwidth *bandwidth_new(unsigned bytes_per_msec)
{
	struct bandwidth *b = calloc(1, sizeof *b);

	b->magic = BANDWIDTH_MAGIC;
	b->bytes_per_msec = bytes_per_msec;
	return b;
}

static int is_bandwidth(const struct bandwidth *b)
{
	return b != NULL && b->magic == BANDWIDTH_MAGIC;
}

static void bandwidth_allocate(struct bandwidth *b, unsigned msec)
{
	assert(is_bandwidth(b)); /* @fail */
	b->left = b->bytes_per_msec * msec;
}

static unsigned bandwidth_clamp(struct bandwidth *b, unsigned bytes)
{
	unsigned granted = bytes < b->left ? bytes : b->left;

	b->left -= granted;
	b->granted += granted;
	return granted;
}

static void serve_peers(struct session *s)
{
	for (unsigned i = 0; i < PEERS; i++)
		s->peer_bytes[i] += bandwidth_clamp(s->bandwidth, 1000 * (i + 1));
}

static void *event_loop(void *arg)
{
	struct session *s = arg; /* @arg */

	/* Open the listening sockets. */
	io_wait(12000, 60000);
	for (int pulse = 0; pulse < PULSES; pulse++) {
		bandwidth_allocate(s->bandwidth, PULSE_MSEC); /* @use */
		serve_peers(s);
		io_wait(200, 600);
	}
	return NULL;
}

static void load_settings(struct session *s)
{
	io_wait(5000, 45000);
	s->speed_limit = 50;
}

static struct session *session_init(void)
{
	struct session *s = calloc(1, sizeof *s); /* @alloc */

	pthread_create(&s->events, NULL, event_loop, s); /* @create */
	load_settings(s);
	s->bandwidth = bandwidth_new(s->speed_limit); /* @store */
	return s;
}

static void session_close(struct session *s)
{
	unsigned long total = 0;

	for (unsigned i = 0; i < PEERS; i++)
		total += s->peer_bytes[i];
	printf("sent %lu bytes of %lu granted\n", total, s->bandwidth->granted);
	free(s->bandwidth);
	s->bandwidth = NULL;
	free(s);
}

int main(void)
{
	struct session *s = session_init();

	pthread_join(s->events, NULL);
	session_close(s);
	return 0;
}
