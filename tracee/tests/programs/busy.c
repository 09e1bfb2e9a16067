// Threads that come and go, forks, and signals with values, until a line comes: nothing may be lost.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static volatile int sent, received;
static volatile long sum;
static volatile int children, wrong;

static void take(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    received++;
    sum += info->si_value.sival_int;
}

static void *brief(void *arg) {
    usleep(50);
    return arg;
}

static void *churn(void *arg) {
    while (!stop) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, brief, NULL);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    }
    return arg;
}

static void *fork_often(void *arg) {
    while (!stop) {
        int status;
        pid_t pid = fork();
        if (pid == 0) _exit(children % 100);
        waitpid(pid, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != children % 100) wrong++;
        children++;
        usleep(1000);
    }
    return arg;
}

static void *send_signals(void *arg) {
    while (!stop) {
        union sigval value = {.sival_int = 3};
        if (sent - received < 20) {
            if (sigqueue(getpid(), SIGRTMIN + 1, value) == 0) sent++;
        }
        usleep(300);
    }
    return arg;
}

int main(void) {
    pthread_t threads[3];
    sigset_t set;
    char line[16];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    action.sa_sigaction = take;
    sigaction(SIGRTMIN + 1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    // Only the first thread takes them.
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&threads[0], NULL, churn, NULL);
    pthread_create(&threads[1], NULL, fork_often, NULL);
    pthread_create(&threads[2], NULL, send_signals, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (sent == 0 || children == 0) usleep(1000);
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    // A signal may be on its way still; one that is lost never comes.
    for (int i = 0; i < 200 && received != sent; i++) usleep(1000);
    printf("lost %d, wrong values %d, wrong children %d\n", sent - received, sum != 3L * received, wrong);
    return 6;
}
