/* Waits to be asked to end, and takes a moment to tidy up then. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void say(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    sigset_t end;
    int signal;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    say(argv[1], "waiting");
    sigwait(&end, &signal);
    usleep(300000);
    say(argv[1], "tidied up");
    return 0;
}
