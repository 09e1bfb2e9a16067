/* Ends as its argument says: what `run` has to tell apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct account {
    int balance;
    int limit;
};

static struct account account = {100, 50};

/* Every other process or so draws too much. */
static int amount(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_nsec / 1000 + getpid()) % 2 ? 80 : 20;
}

static int withdraw(int wanted)
{
    if (wanted > account.limit)
        return 0; /* @refused */
    account.balance -= wanted;
    return 1;
}

static void crash(int *where)
{
    *where = 1; /* @crash */
}

/* Ends in one way at first, and in another, now and then, from then on. */
static void counted(const char *path)
{
    int before = 0;
    FILE *count = fopen(path, "r");
    if (count) {
        if (fscanf(count, "%d", &before) != 1)
            before = 0;
        fclose(count);
    }
    count = fopen(path, "w");
    if (count) {
        fprintf(count, "%d\n", before + 1);
        fclose(count);
    }
    int *nowhere = NULL;
    if (before == 0)
        *nowhere = 1; /* @once */
    if (before % 2 == 1)
        *nowhere = 2; /* @often */
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "well";
    if (!strcmp(how, "crash"))
        crash(NULL);
    if (!strcmp(how, "input")) {
        char line[16];
        if (fgets(line, sizeof line, stdin) && !strcmp(line, "crash\n"))
            crash(NULL);
    }
    if (!strcmp(how, "environment") && getenv("CRASH"))
        crash(NULL);
    if (!strcmp(how, "status")) {
        int done = withdraw(amount());
        if (!done)
            exit(3); /* @status */
    }
    if (!strcmp(how, "counted") && argc > 2)
        counted(argv[2]);
    puts("done");
    return 0;
}
