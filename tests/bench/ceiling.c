/* Touches a variable a hundred thousand times in a second of its processor, and counts that in a file that others may read. When it
 * is asked to (SIGUSR1), it fails by that variable. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TOUCHES 100000

static long slot;
static long *volatile current = &slot;
static volatile sig_atomic_t asked;

static void ask(int signal)
{
	(void)signal;
	asked = 1;
}

__attribute__((noinline)) static void compute(long rounds)
{
	for (long i = 0; i < rounds; i++)
		__asm__ volatile("" : : "r"(i));
}

static long nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000l + now.tv_nsec;
}

__attribute__((noinline)) static void touch(void)
{
	if (asked)
		current = NULL;
	*current += 1;
}

int main(int argc, char **argv)
{
	const long tried = 50 * 1000 * 1000;
	int file = open(argc > 1 ? argv[1] : "touches", O_RDWR | O_CREAT, 0600);
	volatile long *touches;
	long started, rounds;

	if (file < 0 || ftruncate(file, sizeof *touches) != 0)
		return 2;
	touches = mmap(NULL, sizeof *touches, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (touches == MAP_FAILED)
		return 2;
	signal(SIGUSR1, ask);
	started = nanoseconds();
	compute(tried);
	rounds = (long)(1e9 / TOUCHES * tried / (nanoseconds() - started));
	for (;;) {
		compute(rounds);
		touch();
		++*touches;
	}
}
