#include "dns.h"

#include <stdlib.h>
#include <time.h>

/* Milliseconds since the first call. */
uint32_t now_msec(void)
{
	static atomic_llong origin;
	struct timespec t;
	long long now, zero = 0;

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	atomic_compare_exchange_strong(&origin, &zero, now);
	return (uint32_t)(now - atomic_load(&origin));
}

/* Waits as long as a peer on the network might let us. */
void idle_usec(unsigned least, unsigned most)
{
	static _Thread_local unsigned short seed[3];
	struct timespec t;

	if (!seed[0]) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		seed[0] = (unsigned short)(t.tv_nsec | 1);
		seed[1] = (unsigned short)(t.tv_nsec >> 12);
		seed[2] = (unsigned short)((uintptr_t)&seed >> 12);
		nrand48(seed);
	}
	t.tv_sec = 0;
	t.tv_nsec = (long)(least + (unsigned)nrand48(seed) % (most - least + 1)) * 1000;
	nanosleep(&t, NULL);
}
