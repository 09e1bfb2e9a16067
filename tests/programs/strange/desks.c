/* Twelve desks are opened in a loop, and one of them is served by two tellers: in the evening its balance may be wrong. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DESKS = 12, SHARED = 7, ROUNDS = 3 };

struct desk {
	long balance;
	long served;
};

static struct desk *desks[DESKS];

static void nap(unsigned *seed, int most)
{
	struct timespec time = {0, (rand_r(seed) % most) * 1000L};

	nanosleep(&time, NULL);
}

static struct desk *open_desk(long balance)
{
	struct desk *desk = calloc(1, sizeof *desk);

	if (!desk)
		abort();
	desk->balance = balance;
	return desk;
}

static void serve(struct desk *desk, unsigned *seed)
{
	long before = desk->balance; /* @read */

	nap(seed, 300);
	desk->balance = before - 1; /* @write */
	__atomic_fetch_add(&desk->served, 1, __ATOMIC_RELAXED);
}

static void *teller(void *first)
{
	long from = (long)first;
	unsigned seed = (unsigned)time(NULL) * 31 + (unsigned)getpid() * 7 + (unsigned)from;

	for (int round = 0; round < ROUNDS; round++) {
		for (long at = from; at < DESKS; at += 2)
			if (at != SHARED)
				serve(desks[at], &seed);
		nap(&seed, 4000);
		serve(desks[SHARED], &seed);
	}
	return NULL;
}

int main(void)
{
	pthread_t tellers[2];

	for (int at = 0; at < DESKS; at++)
		desks[at] = open_desk(100 + at);
	for (long at = 0; at < 2; at++)
		if (pthread_create(&tellers[at], NULL, teller, (void *)at))
			return 1;
	for (int at = 0; at < 2; at++)
		pthread_join(tellers[at], NULL);
	for (int at = 0; at < DESKS; at++)
		assert(desks[at]->balance + desks[at]->served == 100 + at); /* @fail */
	return 0;
}
