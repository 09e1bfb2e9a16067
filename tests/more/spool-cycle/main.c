/*
 * A print spooler with three threads: one takes jobs from users, one prints,
 * one compares the printer's own page counter with what was charged.
 */
#include "spooler.h"

#include <stdio.h>
#include <stdlib.h>

/* A job is in the queue only if it is paid for: the queue stays locked until it is. */
static int submit(struct spooler *sp, unsigned user, unsigned pages)
{
	int accepted = 0;

	pthread_mutex_lock(&sp->queue_lock); /* @submit-has-queue */
	if (sp->waiting < 16) {
		pause_msec(1, 7);
		pthread_mutex_lock(&sp->accounts_lock); /* @submit-wants-accounts */
		pages = charge(sp, user, pages);
		pthread_mutex_unlock(&sp->accounts_lock);
		accepted = pages > 0 && enqueue(sp, user, pages) == 0;
	}
	pthread_mutex_unlock(&sp->queue_lock);
	return accepted;
}

/* Nobody else may talk to the device between the job's first and last page. */
static int print_next(struct spooler *sp)
{
	struct print_job *job;

	pthread_mutex_lock(&sp->device_lock); /* @print-has-device */
	pause_msec(1, 7); /* warming up */
	pthread_mutex_lock(&sp->queue_lock); /* @print-wants-queue */
	job = dequeue(sp);
	pthread_mutex_unlock(&sp->queue_lock);
	if (job) {
		sp->page_counter += job->pages;
		sp->toner -= job->pages;
	}
	pthread_mutex_unlock(&sp->device_lock);
	free(job);
	return job != NULL;
}

static void audit(struct spooler *sp)
{
	unsigned sum = 0, printed;

	pthread_mutex_lock(&sp->accounts_lock); /* @audit-has-accounts */
	for (unsigned i = 0; i < MAX_USERS; i++)
		sum += sp->accounts[i].charged;
	pause_msec(1, 7); /* the ledger is on a network share */
	pthread_mutex_lock(&sp->device_lock); /* @audit-wants-device */
	printed = sp->page_counter;
	pthread_mutex_unlock(&sp->device_lock);
	sp->audits++;
	sp->mismatches += printed > sum;
	pthread_mutex_unlock(&sp->accounts_lock);
}

static void *submitter(void *arg)
{
	struct spooler *sp = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		pause_msec(0, 30);
		submit(sp, i % MAX_USERS, 3 + 2 * i); /* @submit */
	}
	return NULL;
}

static void *printer(void *arg)
{
	struct spooler *sp = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		pause_msec(0, 30);
		print_next(sp); /* @print */
	}
	return NULL;
}

static void *auditor(void *arg)
{
	struct spooler *sp = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		pause_msec(0, 30);
		audit(sp); /* @audit */
	}
	return NULL;
}

static void print_bill(struct spooler *sp)
{
	pthread_mutex_lock(&sp->accounts_lock);
	for (unsigned i = 0; i < MAX_USERS; i++)
		printf("%-8s %3u of %u pages\n", sp->accounts[i].name, sp->accounts[i].charged,
		       sp->accounts[i].quota);
	printf("%u audits, %u mismatches\n", sp->audits, sp->mismatches);
	pthread_mutex_unlock(&sp->accounts_lock);
}

int main(void)
{
	static void *(*const roles[])(void *) = {submitter, printer, auditor};
	pthread_t threads[3];
	struct spooler *sp = spooler_new();

	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, roles[i], sp))
			return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print_bill(sp);
	spooler_delete(sp);
	return 0;
}
