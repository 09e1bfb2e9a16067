/* A web server's buffered access log: workers add entries, the last one to stop writes them out. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define WORKERS 2
#define REQUESTS 2

struct log_entry {
	const char *host;
	unsigned status;
	unsigned bytes;
};

static struct {
	struct log_entry entries[WORKERS * REQUESTS + 1];
	size_t used;
	size_t written;
} access_log;

static const char *const hosts[] = {"alpha.example", "beta.example", "gamma.example"};
static atomic_int running = WORKERS;

/* A request to the network takes from `least` to `most` microseconds. */
static void net_wait(unsigned least, unsigned most)
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

static const char *resolve_host(unsigned client)
{
	net_wait(200, 1200);
	return hosts[client % (sizeof hosts / sizeof hosts[0])];
}

static void log_request(unsigned client, unsigned status, unsigned bytes)
{
	struct log_entry *e = &access_log.entries[access_log.used]; /* @slot */
	const char *host = resolve_host(client);

	e->status = status;
	e->bytes = bytes;
	e->host = host; /* @fill */
	access_log.used++; /* @advance */
}

static void write_entry(const struct log_entry *e)
{
	char line[80];
	size_t n = 0;

	for (const char *h = e->host; *h && n < sizeof line - 16; h++) /* @fail */
		line[n++] = *h;
	n += (size_t)snprintf(line + n, sizeof line - n, " %u %u\n", e->status, e->bytes);
	access_log.written += n;
}

static void flush_log(void)
{
	for (size_t i = 0; i < access_log.used; i++) /* @bound */
		write_entry(&access_log.entries[i]); /* @write */
}

static unsigned serve(unsigned client)
{
	unsigned page = client;

	for (int i = 0; i < 2000; i++)
		page = page * 1103515245 + 12345;
	net_wait(500, 18000);
	return page >> 16;
}

static void *worker(void *arg)
{
	unsigned first = *(unsigned *)arg;

	for (unsigned i = 0; i < REQUESTS; i++)
		log_request(first + i, 200, serve(first + i)); /* @log */
	if (atomic_fetch_sub(&running, 1) == 1)
		flush_log(); /* @flush */
	return NULL;
}

static void print_status(void)
{
	printf("%zu requests, %zu bytes of log\n", access_log.used, access_log.written);
	access_log.used = 0;
}

int main(void)
{
	pthread_t workers[WORKERS];
	unsigned first[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++) {
		first[i] = i * REQUESTS;
		pthread_create(&workers[i], NULL, worker, &first[i]);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	print_status();
	return 0;
}
