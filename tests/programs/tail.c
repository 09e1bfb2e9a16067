/* Optimised code jumps from `relay` to `finish`: no frame of `relay` is on the stack when it crashes. */
#include <stdio.h>

struct job {
	int *result;
	int value;
};

__attribute__((noinline)) static int finish(struct job *job)
{
	*job->result = job->value; /* @fail */
	return job->value + 1;
}

__attribute__((noinline)) static int relay(struct job *job)
{
	job->value++;
	return finish(job); /* @jump */
}

int main(int argc, char **argv)
{
	struct job job = {argc > 1 ? &job.value : NULL, argc};
	int done = relay(&job); /* @call */

	printf("%s %d\n", argv[0], done);
	return 0;
}
