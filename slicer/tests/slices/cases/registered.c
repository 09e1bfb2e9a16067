/* A function whose address goes where nobody can follow it: it ran because somebody gave it away. */
#include <signal.h>
#include <stdlib.h>

static int *cell; // maybe

static void on_alarm(int signal)
{
    *cell = signal; // from
}

int main(int count, char **words)
{
    if (count > 1) // in
        signal(SIGALRM, on_alarm); // in
    cell = calloc(count, 4); // in
    raise(SIGALRM); // out
    return 0; // out
}
