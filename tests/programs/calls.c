/* System calls of many kinds, always the same, with accesses to `shared` all around them. First prints `pid N`;
 * starts when standard input has a byte or ends. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

long shared;

static void on_signal(int signal) {
    (void)signal;
    shared++;
}

int main(void) {
    struct timespec time = {0, 1000000};
    struct epoll_event event;
    char byte;
    printf("pid %08d\n", getpid()); /* as long in every run */
    fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    signal(SIGUSR1, on_signal);
    int nothing_comes = epoll_create1(0);
    for (int round = 0; round < 20; round++) {
        shared++;
        nanosleep(&time, NULL);
        shared++;
        epoll_wait(nothing_comes, &event, 1, 1);
        shared++;
        poll(NULL, 0, 1);
        raise(SIGUSR1);
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        shared++;
        munmap(page, 4096);
        if (round % 5 == 0) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                shared++;
                _exit(round);
            }
            waitpid(child, &status, 0);
        }
    }
    return 3;
}
