/* The printer's queue and the accounts of those who print. */
#define _DEFAULT_SOURCE
#include "spooler.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Rendering, motors and network shares all take their time. */
void pause_msec(unsigned least, unsigned most)
{
	unsigned draw = 0;

	if (getrandom(&draw, sizeof draw, 0) != (ssize_t)sizeof draw)
		draw = (unsigned)getpid();
	usleep(least * 1000 + draw % ((most - least) * 1000 + 1));
}

struct spooler *spooler_new(void)
{
	static const char *const names[MAX_USERS] = {"ada", "barbara", "grace", "frances"};
	struct spooler *sp = calloc(1, sizeof *sp);

	if (!sp)
		abort();
	pthread_mutex_init(&sp->queue_lock, NULL);
	pthread_mutex_init(&sp->device_lock, NULL);
	pthread_mutex_init(&sp->accounts_lock, NULL);
	sp->tail = &sp->head;
	sp->toner = 1000;
	for (unsigned i = 0; i < MAX_USERS; i++) {
		snprintf(sp->accounts[i].name, sizeof sp->accounts[i].name, "%s", names[i]);
		sp->accounts[i].quota = 100;
	}
	return sp;
}

void spooler_delete(struct spooler *sp)
{
	struct print_job *job;

	while ((job = dequeue(sp)))
		free(job);
	pthread_mutex_destroy(&sp->queue_lock);
	pthread_mutex_destroy(&sp->device_lock);
	pthread_mutex_destroy(&sp->accounts_lock);
	free(sp);
}

/* Takes pages off a user's quota; returns how many of them he may print. */
unsigned charge(struct spooler *sp, unsigned user, unsigned pages)
{
	struct account *a = &sp->accounts[user];

	if (a->charged + pages > a->quota)
		pages = a->quota - a->charged;
	a->charged += pages;
	return pages;
}

int enqueue(struct spooler *sp, unsigned user, unsigned pages)
{
	struct print_job *job = malloc(sizeof *job);

	if (!job)
		return -1;
	*job = (struct print_job){.user = user, .pages = pages};
	*sp->tail = job;
	sp->tail = &job->next;
	sp->waiting++;
	return 0;
}

struct print_job *dequeue(struct spooler *sp)
{
	struct print_job *job = sp->head;

	if (!job)
		return NULL;
	sp->head = job->next;
	if (!sp->head)
		sp->tail = &sp->head;
	sp->waiting--;
	return job;
}
