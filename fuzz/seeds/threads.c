/* A queue between two threads: globals, structures, a jump table, a callback, thread creation. */
#include <pthread.h>
#include <stdlib.h>

struct job {
	int kind;
	struct job *next;
	union {
		long number;
		char bytes[8];
	} u;
	unsigned urgent : 1, tries : 5;
};

static struct job *head;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long totals[8];

static long add(struct job *job) { return totals[job->kind & 7] += job->u.number; }
static long drop(struct job *job) { return totals[0]--; }
static long (*handlers[])(struct job *) = { add, drop };

static long handle(struct job *job)
{
	switch (job->kind) {
	case 0: return handlers[0](job);
	case 1: return handlers[1](job);
	case 2: return job->u.bytes[3];
	case 3: return job->tries * 3;
	case 4: return job->next->kind;
	case 5: job->urgent = 1; break;
	default: abort();
	}
	return totals[job->kind];
}

static void *worker(void *argument)
{
	long sum = 0;
	for (long left = *(long *)argument; left > 0; left--) {
		pthread_mutex_lock(&lock);
		struct job *job = head;
		if (job)
			head = job->next;
		pthread_mutex_unlock(&lock);
		sum += handle(job);
	}
	return (void *)sum;
}

int main(int count, char **words)
{
	pthread_t thread;
	long rounds = count + 3;
	for (int i = 0; i < count; i++) {
		struct job *job = malloc(sizeof *job);
		job->kind = words[i][0] % 6;
		job->next = head;
		head = job;
	}
	pthread_create(&thread, 0, worker, &rounds);
	pthread_join(thread, 0);
	return (int)totals[1];
}
