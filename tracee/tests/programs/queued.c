// Signals with values, from itself and from a child, and a fault that is handled.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static int received;

static void take(int signal, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d code %d value %d from %s\n", signal, info->si_code, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0,
           info->si_code > 0 ? "the kernel" : info->si_pid == getpid() ? "itself" : "another");
    received++;
}

static void fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    printf("fault %d code %d at %p\n", signal, info->si_code, info->si_addr);
    siglongjmp(back, 1);
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = take;
    sigset_t all;
    sigfillset(&all);
    for (int i = 0; i < 3; i++) sigaction(SIGRTMIN + i, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 6; i++) {
        union sigval value = {.sival_int = 100 + i};
        sigqueue(getpid(), SIGRTMIN + i % 3, value);
    }
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    pid_t parent = getpid();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        union sigval value = {.sival_int = 7};
        sigqueue(parent, SIGRTMIN, value);
        _exit(0);
    }
    while (received < 7) usleep(1000);
    waitpid(pid, NULL, 0);
    raise(SIGUSR1);
    // Nobody's trap but the program's.
    raise(SIGTRAP);
    __asm__ volatile("int3");
    action.sa_sigaction = fault;
    sigaction(SIGSEGV, &action, NULL);
    if (!sigsetjmp(back, 1)) *(volatile int *)0x40 = 1;
    printf("received %d\n", received);
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}
