/* A database server's process list: a monitor reports what every session is doing. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define SESSIONS 2
#define QUERIES 2
#define REPORTS 2

struct thd {
	unsigned id;
	const char *user;
	const char *proc_info;
	unsigned queries;
};

struct report {
	char text[256];
	size_t used;
	size_t written;
};

static struct thd sessions[SESSIONS] = {{1, "webshop", NULL, 0}, {2, "backup", NULL, 0}};

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

static void append(struct report *r, const char *s)
{
	while (*s && r->used < sizeof r->text - 1) /* @fail */
		r->text[r->used++] = *s++;
}

static void flush(struct report *r)
{
	io_wait(200, 2000);
	r->written += r->used;
	r->used = 0;
}

static void report_session(struct report *r, struct thd *thd)
{
	append(r, thd->user);
	if (thd->proc_info) { /* @check */
		append(r, ": ");
		flush(r);
		append(r, thd->proc_info); /* @use */
	}
	append(r, "\n");
}

static void *monitor(void *arg)
{
	struct report *r = arg;

	for (int i = 0; i < REPORTS; i++) {
		io_wait(500, 6000);
		for (int s = 0; s < SESSIONS; s++)
			report_session(r, &sessions[s]); /* @report */
	}
	flush(r);
	return NULL;
}

static void run_query(struct thd *thd)
{
	thd->proc_info = "Sending data"; /* @set */
	io_wait(3000, 9000);
	thd->queries++;
	thd->proc_info = NULL; /* @clear */
}

static void *session(void *arg)
{
	for (int i = 0; i < QUERIES; i++)
		run_query(arg); /* @query */
	return NULL;
}

static void print_totals(const struct report *r)
{
	for (int s = 0; s < SESSIONS; s++)
		printf("%-10s %u queries %s\n", sessions[s].user, sessions[s].queries,
		       sessions[s].proc_info ? sessions[s].proc_info : "idle");
	printf("%zu bytes reported\n", r->written);
}

int main(void)
{
	static struct report report;
	pthread_t threads[SESSIONS + 1];

	for (int i = 0; i < SESSIONS; i++)
		pthread_create(&threads[i], NULL, session, &sessions[i]);
	pthread_create(&threads[SESSIONS], NULL, monitor, &report);
	for (int i = 0; i <= SESSIONS; i++)
		pthread_join(threads[i], NULL);
	print_totals(&report);
	return 0;
}
