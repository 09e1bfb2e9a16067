/* A proxy: workers hand requests to peers, the main thread watches the peers' health. */
#include "upstream.h"

#include <stdio.h>

#define WORKERS 2
#define REQUESTS 2
#define CHECKS 2

static struct upstream backend;

static void *worker(void *arg)
{
	unsigned id = *(unsigned *)arg, unserved = 0; /* @arg */
	char client[24];

	for (unsigned i = 0; i < REQUESTS; i++) {
		snprintf(client, sizeof client, "10.0.%u.%u", id, 17 * i + 3);
		wait_us(500, 40000);
		if (!upstream_pick(&backend, client)) /* @pick */
			unserved++;
	}
	if (unserved)
		printf("worker %u: %u without a peer\n", id, unserved);
	return NULL;
}

static void watch_peers(void)
{
	for (int i = 0; i < CHECKS; i++) {
		wait_us(3000, 24000);
		upstream_check_peers(&backend); /* @check */
	}
}

int main(void)
{
	pthread_t threads[WORKERS];
	unsigned ids[WORKERS];

	upstream_init(&backend);
	upstream_add(&backend, "app1", 5);
	upstream_add(&backend, "app2", 3);
	upstream_add(&backend, "old1", 1);
	for (unsigned i = 0; i < WORKERS; i++) {
		ids[i] = i;
		pthread_create(&threads[i], NULL, worker, &ids[i]); /* @create */
	}
	watch_peers(); /* @watch */
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	upstream_status(&backend);
	return 0;
}
