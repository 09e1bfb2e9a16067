/* A cache server: a client stores and deletes sessions, the maintainer makes room for new ones. */
#include "items.h"

#include <stdio.h>

#define SESSIONS 4
#define SWEEPS 2

static struct lru sessions;

static void *client(void *arg)
{
	struct lru *l = arg;
	char key[32];

	for (int i = 0; i < SESSIONS; i++) {
		snprintf(key, sizeof key, "session:%d", i);
		item_link(l, key, 200 + 40 * (size_t)i); /* @link */
		wait_us(500, 5000);
		item_delete(l, key); /* @delete */
		wait_us(500, 3000);
	}
	return NULL;
}

static void *maintainer(void *arg)
{
	struct lru *l = arg;
	size_t freed = 0;

	for (int i = 0; i < SWEEPS; i++) {
		wait_us(1000, 7000);
		freed += lru_evict(l); /* @evict */
	}
	printf("%zu bytes freed\n", freed);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	lru_init(&sessions);
	pthread_create(&threads[0], NULL, client, &sessions);
	pthread_create(&threads[1], NULL, maintainer, &sessions);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	lru_stats(&sessions);
	lru_clear(&sessions);
	return 0;
}
