/* Uses a pointer that is gone: at one place the first time, at another in every second run after that. The file that is named
 * counts the runs. */
#include <stdio.h>

static int *gone;

static int use(int run)
{
	if (run == 1)
		return *gone; /* @first */
	if (run % 2)
		return 1 + *gone; /* @later */
	return 0;
}

int main(int argc, char **argv)
{
	int run = 0;
	FILE *file = fopen(argv[argc - 1], "r");

	if (file) {
		if (fscanf(file, "%d", &run) != 1)
			run = 0;
		fclose(file);
	}
	file = fopen(argv[argc - 1], "w");
	fprintf(file, "%d\n", ++run);
	fclose(file);
	return use(run);
}
