// Forks, spawns, and tells how the children ended.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int cloned(void *arg) {
    (void)arg;
    _exit(6);
}

int main(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(3);
    waitpid(pid, &status, 0);
    printf("fork: exited %d %d\n", WIFEXITED(status), WEXITSTATUS(status));
    pid = fork();
    if (pid == 0) { kill(getpid(), SIGKILL); }
    waitpid(pid, &status, 0);
    printf("fork: killed %d %d\n", WIFSIGNALED(status), WTERMSIG(status));
    char *argv[] = {"sh", "-c", "exit 4", NULL};
    posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ);
    waitpid(pid, &status, 0);
    printf("spawn: exited %d %d\n", WIFEXITED(status), WEXITSTATUS(status));
    // A new process that no rule for forks covers: no signal at its end.
    char *stack = malloc(1 << 16);
    pid = clone(cloned, stack + (1 << 16), 0, NULL);
    waitpid(pid, &status, __WALL);
    printf("clone: exited %d %d\n", WIFEXITED(status), WEXITSTATUS(status));
    return 0;
}
