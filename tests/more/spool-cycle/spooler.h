#ifndef SPOOLER_H
#define SPOOLER_H

#include <pthread.h>

#define MAX_USERS 4
#define ROUNDS 2

struct print_job {
	struct print_job *next;
	unsigned user;
	unsigned pages;
};

struct account {
	char name[16];
	unsigned quota;
	unsigned charged;
};

/* One printer: what waits for it, the device itself, and who pays. */
struct spooler {
	pthread_mutex_t queue_lock;
	struct print_job *head, **tail;
	unsigned waiting;

	pthread_mutex_t device_lock;
	unsigned page_counter;
	unsigned toner;

	pthread_mutex_t accounts_lock;
	struct account accounts[MAX_USERS];
	unsigned audits, mismatches;
};

struct spooler *spooler_new(void);
void spooler_delete(struct spooler *sp);
void pause_msec(unsigned least, unsigned most);

int enqueue(struct spooler *sp, unsigned user, unsigned pages);
struct print_job *dequeue(struct spooler *sp);
unsigned charge(struct spooler *sp, unsigned user, unsigned pages);

#endif
