/* A loop with two branches an iteration, and a function that is never called. Prints the nanoseconds of processor
 * time that the loop took: others may be busy. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) unsigned long hot(unsigned long count)
{
	unsigned long sum = 0, state = 88172645463325252ul;
	for (unsigned long i = 0; i < count; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		if (state & 1)
			sum += state;
		else
			sum ^= i;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

__attribute__((noinline)) unsigned long cold(unsigned long count)
{
	unsigned long sum = 0;
	for (unsigned long i = 0; i < count; i++)
		if (i % 3)
			sum += i;
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long count = strtoul(argv[1], NULL, 10);
	struct timespec start, end;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
	unsigned long sum = hot(count);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	if (argc > 2)
		sum += cold(count);
	fprintf(stderr, "%lu\n", sum);
	printf("%ld\n", (end.tv_sec - start.tv_sec) * 1000000000l + end.tv_nsec - start.tv_nsec);
}
