// Writes a known number of times to a watched variable: in the first thread and in four more, or once while
// it blocks SIGTRAP. Unblocking it must not kill.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile long watched;
static char mode;

static void *write_often(void *arg) {
    for (int i = 0; i < 50; i++) watched = i;
    return arg;
}

static void wait_line(void) {
    char line[16];
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

int main(int argc, char **argv) {
    sigset_t set;
    pthread_t threads[4];
    mode = argc > 1 ? argv[1][0] : 't';
    printf("ready\n");
    fflush(stdout);
    wait_line();
    if (mode == 'b') {
        sigemptyset(&set);
        sigaddset(&set, SIGTRAP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        watched = 1;
        printf("blocked\n");
        fflush(stdout);
        wait_line();
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    } else {
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, write_often, NULL);
        write_often(NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        wait_line();
    }
    printf("done %ld\n", watched);
    return 8;
}
