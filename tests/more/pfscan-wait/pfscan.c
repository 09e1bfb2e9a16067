/* A parallel file scanner: the main thread queues paths, workers search the files for a string. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORKERS 2
#define QUEUE 8

struct pqueue {
	const char *paths[QUEUE];
	unsigned head, used;
	int closed;
	pthread_mutex_t mtx;
	pthread_cond_t more, less;
};

struct scan {
	struct pqueue queue;
	const char *needle;
	pthread_mutex_t active_mtx;
	pthread_cond_t active_cv;
	int active;
	unsigned long files, matches;
};

static const struct {
	const char *path, *text;
} disk[] = {
	{"/etc/hosts", "localhost loopback broadcasthost"},
	{"/etc/services", "ssh smtp domain http pop3 ntp imap snmp https"},
	{"/usr/share/words", "error erratic erratum erroneous errs"},
	{"/var/log/messages", "kernel: error on disk; smartd: error count 3; login ok"},
	{"/var/log/boot", "mounting root; no error"},
};

static struct scan scan = {
	.queue = {.mtx = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .less = PTHREAD_COND_INITIALIZER},
	.needle = "error",
	.active_mtx = PTHREAD_MUTEX_INITIALIZER,
	.active_cv = PTHREAD_COND_INITIALIZER,
};

static void io_delay(unsigned least, unsigned most)
{
	static _Thread_local uint64_t state;
	struct timespec t;

	if (state == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		state = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uintptr_t)&state;
	}
	state = state * 6364136223846793005u + 1442695040888963407u;
	t.tv_sec = 0;
	t.tv_nsec = (long)(least + (state >> 33) % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

static void pqueue_put(struct pqueue *q, const char *path)
{
	pthread_mutex_lock(&q->mtx);
	while (q->used == QUEUE)
		pthread_cond_wait(&q->less, &q->mtx);
	q->paths[(q->head + q->used++) % QUEUE] = path;
	pthread_mutex_unlock(&q->mtx);
	pthread_cond_signal(&q->more);
}

static const char *pqueue_get(struct pqueue *q)
{
	const char *path = NULL;

	pthread_mutex_lock(&q->mtx);
	while (q->used == 0 && !q->closed)
		pthread_cond_wait(&q->more, &q->mtx);
	if (q->used > 0) {
		path = q->paths[q->head];
		q->head = (q->head + 1) % QUEUE;
		q->used--;
		pthread_cond_signal(&q->less);
	}
	pthread_mutex_unlock(&q->mtx);
	return path;
}

static void pqueue_close(struct pqueue *q)
{
	pthread_mutex_lock(&q->mtx);
	q->closed = 1;
	pthread_mutex_unlock(&q->mtx);
	pthread_cond_broadcast(&q->more);
}

static unsigned long count_matches(const char *text, const char *needle)
{
	unsigned long n = 0;

	for (const char *p = strstr(text, needle); p; p = strstr(p + 1, needle))
		n++;
	return n;
}

static void scan_file(struct scan *s, const char *path)
{
	unsigned long n = 0;

	io_delay(300, 6000);
	for (size_t i = 0; i < sizeof disk / sizeof disk[0]; i++)
		if (strcmp(disk[i].path, path) == 0)
			n = count_matches(disk[i].text, s->needle);
	__atomic_add_fetch(&s->files, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->matches, n, __ATOMIC_RELAXED);
}

static void *worker(void *arg)
{
	struct scan *s = arg; /* @worker-arg */
	const char *path;

	while ((path = pqueue_get(&s->queue)) != NULL)
		scan_file(s, path);
	pthread_mutex_lock(&s->active_mtx);
	s->active--; /* @leave */
	pthread_cond_signal(&s->active_cv); /* @signal */
	pthread_mutex_unlock(&s->active_mtx);
	return NULL;
}

static int active_workers(struct scan *s)
{
	int n;

	pthread_mutex_lock(&s->active_mtx);
	n = s->active; /* @active-read */
	pthread_mutex_unlock(&s->active_mtx);
	return n;
}

/* The terminal may be slow. */
static void show_progress(const struct scan *s)
{
	fprintf(stderr, "\r%lu files", s->files);
	io_delay(100, 700);
}

static void wait_for_workers(struct scan *s)
{
	while (active_workers(s) > 0) { /* @check */
		show_progress(s);
		pthread_mutex_lock(&s->active_mtx);
		pthread_cond_wait(&s->active_cv, &s->active_mtx); /* @fail */
		pthread_mutex_unlock(&s->active_mtx);
	}
}

static void print_matches(const struct scan *s)
{
	printf("%lu matches of %s in %lu files, %d workers left\n", s->matches, s->needle, s->files, s->active);
}

int main(void)
{
	pthread_t threads[WORKERS];

	scan.active = WORKERS; /* @active-init */
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, &scan); /* @create */
	for (size_t i = 0; i < sizeof disk / sizeof disk[0]; i++) {
		io_delay(50, 600);
		pqueue_put(&scan.queue, disk[i].path);
	}
	pqueue_close(&scan.queue);
	wait_for_workers(&scan); /* @wait */
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	print_matches(&scan);
	return 0;
}
