/*
 * Forwards packets by a table that is read all the time and hardly ever changed. Readers take the
 * current table without a lock; who changes it publishes a new one and frees the old one when the
 * readers that may still have it are through.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/time.h>

#define READERS 3
#define PACKETS 8
#define ROUTES 16

struct route {
	uint32_t network, mask;
	int port;
};

struct table {
	unsigned revision;
	size_t count;
	struct route *routes;
	struct table *next_spare;
};

struct reader {
	atomic_uint inside; /* odd while it uses a table */
	unsigned forwarded, dropped;
};

static struct {
	_Atomic(struct table *) current;
	struct reader readers[READERS];
	struct table *spare; /* of the updater */
	unsigned published;
} router;

static void wait_between(unsigned least_us, unsigned most_us)
{
	static _Thread_local uint64_t state;
	struct timeval tv;

	if (!state) {
		gettimeofday(&tv, NULL);
		state = ((uint64_t)tv.tv_usec << 32 ^ (uintptr_t)&state) | 1;
		for (int i = 0; i < 4; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
	}
	state = state * 6364136223846793005u + 1442695040888963407u;
	tv.tv_sec = 0;
	tv.tv_usec = (long)(least_us + (uint32_t)(state >> 33) % (most_us - least_us + 1));
	select(0, NULL, NULL, NULL, &tv);
}

static struct table *table_new(unsigned revision)
{
	struct table *t = router.spare;

	if (t)
		router.spare = t->next_spare;
	else
		t = malloc(sizeof *t);
	if (!t)
		abort();
	t->revision = revision;
	t->count = ROUTES;
	t->routes = calloc(ROUTES, sizeof *t->routes);
	if (!t->routes)
		abort();
	for (size_t i = 0; i < ROUTES; i++) {
		t->routes[i].network = (uint32_t)(i << 28);
		t->routes[i].mask = 0xf0000000u;
		t->routes[i].port = (int)((i + revision) % 5);
	}
	return t;
}

static void table_free(struct table *t)
{
	free(t->routes);
	t->routes = NULL; /* @routes-gone */
	t->count = 0;
	t->next_spare = router.spare;
	router.spare = t;
}

/* The interface says what the packet is for, in its own time. */
static uint32_t destination(unsigned number)
{
	wait_between(200, 1500);
	return number * 0x31415927u;
}

static int lookup(const struct table *t, unsigned number)
{
	uint32_t to = destination(number);
	const struct route *r = t->routes; /* @routes-read */

	while ((to & r->mask) != r->network) /* @fail */
		r++;
	return r->port;
}

static void forward(struct reader *me, unsigned number)
{
	struct table *t;

	t = atomic_load(&router.current); /* @current-read */
	atomic_fetch_add(&me->inside, 1);
	if (lookup(t, number) == 0) /* @lookup */
		me->dropped++;
	else
		me->forwarded++;
	atomic_fetch_add(&me->inside, 1);
}

static void *reader(void *arg)
{
	struct reader *me = arg;

	for (unsigned i = 0; i < PACKETS; i++) {
		wait_between(500, 4000);
		forward(me, i); /* @forward */
	}
	return NULL;
}

/* Every reader that is inside comes out once. */
static void wait_for_readers(void)
{
	for (int i = 0; i < READERS; i++) {
		unsigned inside = atomic_load(&router.readers[i].inside);

		while ((inside & 1) && atomic_load(&router.readers[i].inside) == inside)
			wait_between(100, 300);
	}
}

static void publish(struct table *fresh)
{
	struct table *old;

	wait_for_readers();
	wait_between(300, 1200); /* the neighbours are told */
	old = atomic_exchange(&router.current, fresh);
	router.published++;
	table_free(old); /* @free */
}

static void *updater(void *arg)
{
	(void)arg;
	wait_between(3000, 60000);
	publish(table_new(2)); /* @publish */
	return NULL;
}

static void print_readers(void)
{
	for (int i = 0; i < READERS; i++)
		printf("reader %d: %u forwarded, %u dropped\n", i, router.readers[i].forwarded,
		       router.readers[i].dropped);
	printf("revision %u, published %u times\n", atomic_load(&router.current)->revision, router.published);
}

int main(void)
{
	pthread_t threads[READERS + 1];

	atomic_store(&router.current, table_new(1));
	for (int i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, reader, &router.readers[i]))
			return 1;
	if (pthread_create(&threads[READERS], NULL, updater, NULL))
		return 1;
	for (int i = 0; i <= READERS; i++)
		pthread_join(threads[i], NULL);
	print_readers();
	return 0;
}
