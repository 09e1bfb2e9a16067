/* The applier thread: reads events from the network and applies them. */
#include "replica.h"

#include <stdio.h>
#include <time.h>

/* The network takes from `least` to `most` microseconds to answer. */
void wait_us(unsigned least, unsigned most)
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

static struct event read_event(uint64_t number)
{
	static const enum event_type kinds[] = {EVENT_BEGIN, EVENT_ROWS, EVENT_ROWS, EVENT_ROWS, EVENT_COMMIT};
	struct event ev = {kinds[number % 5], 4 + number * 120, (unsigned)(1 + number % 3)};

	wait_us(400, 2400);
	return ev;
}

/* A transaction is whole: from here on the replica goes on after it. */
static void commit_position(struct master_info *mi, uint64_t position)
{
	pthread_mutex_lock(&mi->lock); /* @applier-wants-lock */
	mi->position = position;
	mi->rows += mi->pending_rows;
	mi->transactions++;
	pthread_mutex_unlock(&mi->lock);
}

static void apply_event(struct master_info *mi, const struct event *ev)
{
	switch (ev->type) {
	case EVENT_BEGIN:
		mi->pending_rows = 0;
		break;
	case EVENT_ROWS:
		mi->pending_rows += ev->rows;
		break;
	case EVENT_COMMIT:
		commit_position(mi, ev->position); /* @commit */
		break;
	}
}

static void *applier(void *arg)
{
	struct master_info *mi = arg; /* @arg */

	for (uint64_t number = 0; !atomic_load(&mi->abort_replica); number++) {
		struct event ev = read_event(number);

		apply_event(mi, &ev); /* @apply */
	}
	return NULL;
}

void replica_start(struct master_info *mi)
{
	pthread_mutex_lock(&mi->lock);
	pthread_create(&mi->applier, NULL, applier, mi); /* @create */
	mi->running = 1;
	pthread_mutex_unlock(&mi->lock);
}

void replica_stop(struct master_info *mi)
{
	pthread_mutex_lock(&mi->lock); /* @stop-has-lock */
	if (mi->running) {
		atomic_store(&mi->abort_replica, 1);
		pthread_join(mi->applier, NULL); /* @stop-joins */
		mi->running = 0;
	}
	pthread_mutex_unlock(&mi->lock);
}

void replica_status(struct master_info *mi)
{
	pthread_mutex_lock(&mi->lock);
	printf("%s at %lu, %u transactions, %u rows\n", mi->running ? "running" : "stopped",
	       (unsigned long)mi->position, mi->transactions, mi->rows);
	pthread_mutex_unlock(&mi->lock);
}
