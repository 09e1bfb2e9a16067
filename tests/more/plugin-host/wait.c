#include "host.h"

#include <sys/select.h>
#include <sys/time.h>

/* Files come off a disk and messages off a wire: neither at a time of our choosing. */
void wait_between(unsigned least_us, unsigned most_us)
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
