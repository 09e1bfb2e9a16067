/* A small database server: clients, each a process, send statements over a pipe. */
#include "vdbe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS 4

static const char *const statements[] = {
	"select name street city zip country phone mail\n",
	"select id owner opened closed limit balance currency branch\n",
	"select id where paid total tax due currency\n",
	"select item price stock supplier colour weight width height\n",
	"select name mail\n",
};

#define CLIENTS ((int)(sizeof statements / sizeof statements[0]))

static int client_main(int id, int out)
{
	struct timespec t;
	uint64_t noise;

	clock_gettime(CLOCK_MONOTONIC, &t);
	noise = ((uint64_t)t.tv_nsec << 16) ^ ((uint64_t)getpid() * 0x9e3779b97f4a7c15u);
	for (int i = 0; i < 3; i++) {
		noise ^= noise << 13;
		noise ^= noise >> 7;
		noise ^= noise << 17;
	}
	/* The client's user thinks for a while. */
	t.tv_sec = 0;
	t.tv_nsec = (long)(1000 + (noise >> 11) % 40000) * 1000;
	nanosleep(&t, NULL);
	return write(out, statements[id], strlen(statements[id])) < 0;
}

static void start_clients(int out)
{
	for (int i = 0; i < CLIENTS; i++)
		if (fork() == 0)
			_exit(client_main(i, out));
}

static void print_totals(const struct vdbe *v, int served, int columns)
{
	printf("%d statements, %d columns, room for %d instructions\n", served, columns, v->room);
}

int main(void)
{
	struct vdbe v = {NULL, 0, 0};
	int ends[2], served = 0, columns = 0;
	char line[128];
	FILE *in;

	if (pipe(ends) != 0)
		return 1;
	start_clients(ends[1]);
	close(ends[1]);
	in = fdopen(ends[0], "r");
	while (fgets(line, sizeof line, in)) {
		compile(&v, line); /* @compile */
		for (int row = 0; row < ROWS; row++)
			columns += vdbe_run(&v, row); /* @run */
		served++;
	}
	fclose(in);
	while (wait(NULL) > 0)
		;
	print_totals(&v, served, columns);
	vdbe_free(&v);
	return 0;
}
