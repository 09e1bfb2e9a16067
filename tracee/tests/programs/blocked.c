// A thread in each kind of system call that a signal or a tracer could interrupt for good. Tells what each
// call returned when it was its time.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EPOLL, SEM, SLEEP, SIGWAIT, MSG, POLL, FUTEX, RECV, READ, COUNT };
static const char *names[COUNT] = {"epoll_wait", "semop", "nanosleep", "sigtimedwait", "msgrcv",
                                   "poll",       "futex", "recv",      "read"};
static long results[COUNT];
static int errors[COUNT];
static int event, sem, queue, sockets[2], pipes[2], word;

static long call(long which) {
    struct epoll_event ready = {.events = EPOLLIN};
    struct sembuf down = {0, -1, 0};
    struct timespec second = {1, 0}, minute = {60, 0};
    struct pollfd poll_one = {.fd = event, .events = POLLIN};
    struct { long type; char text[8]; } message;
    sigset_t set;
    char byte;
    switch (which) {
    case EPOLL: {
        int fd = epoll_create1(0);
        epoll_ctl(fd, EPOLL_CTL_ADD, event, &ready);
        return epoll_wait(fd, &ready, 1, 60000);
    }
    case SEM: return semop(sem, &down, 1);
    case SLEEP: return nanosleep(&second, NULL);
    case SIGWAIT:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        return sigtimedwait(&set, NULL, &minute);
    case MSG: return msgrcv(queue, &message, sizeof message.text, 0, 0);
    case POLL: return poll(&poll_one, 1, 60000);
    case FUTEX: return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &minute, NULL, 0);
    case RECV: return recv(sockets[0], &byte, 1, 0);
    case READ: return read(pipes[0], &byte, 1);
    }
    return -2;
}

static void *run(void *which) {
    errno = 0;
    results[(long)which] = call((long)which);
    errors[(long)which] = errno;
    return NULL;
}

int main(void) {
    pthread_t threads[COUNT];
    sigset_t set;
    char line[16];
    struct timeval patience = {60, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    event = eventfd(0, 0);
    sem = semget(IPC_PRIVATE, 1, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (long i = 0; i < COUNT; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    struct sembuf up = {0, 1, 0};
    struct { long type; char text[8]; } message = {1, "text"};
    pthread_join(threads[SLEEP], NULL);
    if (write(pipes[1], "x", 1) != 1 || send(sockets[1], "x", 1, 0) != 1) return 1;
    semop(sem, &up, 1);
    msgsnd(queue, &message, sizeof message.text, 0);
    pthread_kill(threads[SIGWAIT], SIGUSR2);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    eventfd_write(event, 1);
    for (int i = 0; i < COUNT; i++)
        if (i != SLEEP) pthread_join(threads[i], NULL);
    semctl(sem, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    for (int i = 0; i < COUNT; i++) printf("%s: %ld %s\n", names[i], results[i], strerror(errors[i]));
    return 5;
}
