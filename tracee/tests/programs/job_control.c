// A parent that stops and continues its child with two threads, and tells what it sees.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *wait_long(void *arg) {
    for (;;) pause();
    return arg;
}

static void child(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_long, NULL);
    for (;;) pause();
}

static void tell(pid_t pid) {
    int status;
    waitpid(pid, &status, WUNTRACED | WCONTINUED);
    if (WIFSTOPPED(status)) printf("stopped by %d\n", WSTOPSIG(status));
    else if (WIFCONTINUED(status)) printf("continued\n");
    else if (WIFSIGNALED(status)) printf("killed by %d\n", WTERMSIG(status));
    else printf("exited %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

int main(void) {
    pid_t pid = fork();
    // In a group of its own, with its parent outside: in an orphaned one SIGTSTP and SIGTTIN are ignored.
    setpgid(pid, pid);
    if (pid == 0) child();
    int stops[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGSTOP};
    for (int i = 0; i < 4; i++) {
        kill(pid, stops[i]);
        tell(pid);
        kill(pid, SIGCONT);
        tell(pid);
    }
    kill(pid, SIGSTOP);
    tell(pid);
    kill(pid, SIGKILL);
    tell(pid);
    return 0;
}
