/* Prints what a process can see of its own treatment: signals, timers, results of calls that a stop would
 * interrupt, children, job control, limits. Two runs print the same, unless something was done to one of them.
 * `unaware child` does it in a child and prints the wait statuses as well; `unaware alone` in the process itself.
 * With a further word, a signal that nobody handles comes all the time: no call may notice.
 * The process in question first prints `pid N`; it starts when standard input has a byte or ends. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

long shared;

static volatile sig_atomic_t alarms, traps, trap_codes[4];
static volatile int over, disturbed;
static int stopping[2], continued[2];
static int queue_code, queue_value, queue_from_self;
extern char **environ;

static void touch(int times) {
    for (int time = 0; time < times; time++)
        __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST);
}

static void on_alarm(int signal) {
    (void)signal;
    touch(1);
    alarms++;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    trap_codes[__atomic_fetch_add(&traps, 1, __ATOMIC_SEQ_CST) & 3] = info->si_code;
}

static void on_queued(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    touch(1);
    queue_code = info->si_code;
    queue_value = info->si_value.sival_int;
    queue_from_self = info->si_pid == getpid();
}

static void *beside(void *argument) {
    while (!over) {
        touch(1);
        if (disturbed)
            kill(getpid(), SIGURG);
        usleep(500);
    }
    return argument;
}

static void print_signals(void) {
    struct sigaction action;
    sigset_t mask, pending;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    printf("signals");
    for (int number = 1; number < 65; number++) {
        if (sigaction(number, NULL, &action) != 0)
            continue;
        const char *what = action.sa_handler == SIG_DFL ? "d" : action.sa_handler == SIG_IGN ? "i" : "h";
        printf(" %s%x%s%s", what, (unsigned)action.sa_flags, sigismember(&mask, number) ? "b" : "",
               sigismember(&pending, number) ? "p" : "");
    }
    puts("");
}

static void print_surroundings(void) {
    struct rlimit limit;
    unsigned long hash = 5381;
    int signal = 0, files = 0, last = 0;
    cpu_set_t cpus;
    for (int kind = 0; kind < RLIMIT_NLIMITS; kind++) {
        getrlimit(kind, &limit);
        printf("%lx:%lx ", (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    for (char **word = environ; *word; word++)
        for (char *at = *word; *at; at++)
            hash = hash * 33 + (unsigned char)*at;
    prctl(PR_GET_PDEATHSIG, &signal);
    sched_getaffinity(0, sizeof cpus, &cpus);
    mode_t mask = umask(0);
    umask(mask);
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder))
            files++, last = atoi(entry->d_name) > last ? atoi(entry->d_name) : last;
    closedir(folder);
    printf("\nenvironment %lx, death signal %d, dumpable %d, personality %x, umask %o, nice %d, scheduler %d, "
           "processors %d, files %d to %d\n",
           hash, signal, prctl(PR_GET_DUMPABLE), personality(0xffffffff), mask, getpriority(PRIO_PROCESS, 0),
           sched_getscheduler(0), CPU_COUNT(&cpus), files, last);
}

static void print_status(void) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "Sig", 3) || !strncmp(line, "Shd", 3) || !strncmp(line, "Cap", 3) ||
            !strncmp(line, "NoNew", 5) || !strncmp(line, "Seccomp", 7) || !strncmp(line, "Threads", 7))
            if (strncmp(line, "SigQ", 4))
                fputs(line, stdout);
    fclose(file);
}

static const char *result(int value) {
    return value >= 0 ? "done" : errno == EINTR ? "EINTR" : errno == EAGAIN ? "EAGAIN" : strerror(errno);
}

static void wait_in_calls(void) {
    struct epoll_event event;
    struct sembuf take = {0, -1, 0};
    struct timespec short_time = {0, 4000000};
    sigset_t set;
    int nothing_comes = epoll_create1(0), semaphore = semget(IPC_PRIVATE, 1, 0600);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int time = 0; time < 5; time++) {
        touch(2);
        printf("epoll_wait %s", result(epoll_wait(nothing_comes, &event, 1, 4)));
        printf(", semtimedop %s", result(semtimedop(semaphore, &take, 1, &short_time)));
        printf(", sigtimedwait %s", result(sigtimedwait(&set, NULL, &short_time)));
        printf(", nanosleep %s", result(nanosleep(&short_time, NULL)));
        printf(", poll %s\n", result(poll(NULL, 0, 4)));
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    semctl(semaphore, 0, IPC_RMID);
    close(nothing_comes);
}

static void wait_with_timers(void) {
    struct itimerval timer = {{0, 0}, {0, 5000}};
    struct epoll_event event;
    struct timespec long_time = {5, 0};
    int nothing_comes = epoll_create1(0);
    for (int time = 0; time < 5; time++) {
        setitimer(ITIMER_REAL, &timer, NULL);
        int got = time % 2 ? nanosleep(&long_time, NULL) : epoll_wait(nothing_comes, &event, 1, 5000);
        printf("%s %s\n", time % 2 ? "nanosleep" : "epoll_wait", result(got));
    }
    printf("alarms %d\n", alarms);
    close(nothing_comes);
}

static void have_children(void) {
    char *words[] = {"true", NULL};
    int status;
    pid_t child = fork();
    if (child == 0) {
        touch(3);
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("fork %x", status);
    child = fork();
    if (child == 0) {
        touch(1);
        abort();
    }
    waitpid(child, &status, 0);
    printf(", abort %d", WTERMSIG(status));
    posix_spawnp(&child, "true", NULL, NULL, words, environ);
    waitpid(child, &status, 0);
    printf(", spawn %x\n", status);
}

static void trap_itself(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigset_t set;
    sigaction(SIGTRAP, &action, NULL);
    touch(1);
    __asm__ volatile("int3");
    touch(1);
    raise(SIGTRAP);
    /* A signal to the process may be taken by any of its threads, and then arrives when it likes. */
    kill(getpid(), SIGTRAP);
    for (int time = 0; time < 5000 && traps < 3; time++)
        usleep(1000);
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGTRAP);
    int before = traps;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    printf("traps %d then %d, codes %d %d %d %d\n", before, traps, trap_codes[0], trap_codes[1], trap_codes[2],
           trap_codes[3]);
}

/* Whoever continues it is told before, and tells when it has seen it: a second stop would hide a continuation. */
static void stop_with(int signal) {
    char byte = 0;
    if (write(stopping[1], &byte, 1) == 1)
        raise(signal);
    if (read(continued[0], &byte, 1) != 1)
        puts("nobody continues");
}

static int look(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    pthread_t thread;
    char byte;
    printf("pid %d\n", getpid());
    fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    print_signals();
    print_surroundings();
    sigaction(SIGALRM, &action, NULL);
    action = (struct sigaction){.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 3, &action, NULL);
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGTRAP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, beside, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    wait_in_calls();
    wait_with_timers();
    sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 42});
    printf("queued %d %d %d\n", queue_code, queue_value, queue_from_self);
    trap_itself();
    have_children();
    fflush(stdout);
    touch(1);
    stop_with(SIGSTOP);
    touch(1);
    stop_with(SIGTSTP);
    touch(1);
    puts("continued");
    print_signals();
    print_status();
    over = 1;
    pthread_join(thread, NULL);
    fflush(stdout);
    return 5;
}

/* Continues a process when it has stopped, without being its parent. */
static void nurse(pid_t patient) {
    char name[64], text[256], byte;
    snprintf(name, sizeof name, "/proc/%d/stat", patient);
    while (read(stopping[0], &byte, 1) == 1) {
        int stopped = 0;
        while (!stopped) {
            FILE *file = fopen(name, "r");
            if (!file)
                _exit(0);
            /* A traced process that has stopped is in state t, and so is one that is only being looked at. */
            if (fgets(text, sizeof text, file))
                stopped = strstr(text, ") T") || strstr(text, ") t");
            fclose(file);
            usleep(20000);
        }
        kill(patient, SIGCONT);
        if (write(continued[1], &byte, 1) != 1)
            break;
    }
    _exit(0);
}

static int parent_of(pid_t child) {
    int status;
    char byte;
    for (;;) {
        waitpid(child, &status, WUNTRACED | WCONTINUED);
        if (WIFSTOPPED(status)) {
            printf("stopped by %d\n", WSTOPSIG(status));
            kill(child, SIGCONT);
        } else if (WIFCONTINUED(status)) {
            puts("was continued");
        } else {
            break;
        }
        fflush(stdout);
        if (WIFCONTINUED(status) && (read(stopping[0], &byte, 1) != 1 || write(continued[1], &byte, 1) != 1))
            break;
    }
    printf("ended with %x\n", status);
    return 6;
}

int main(int count, char **words) {
    if (pipe(stopping) != 0 || pipe(continued) != 0)
        return 1;
    disturbed = count > 2;
    pid_t other = fork();
    if (count > 1 && !strcmp(words[1], "alone")) {
        if (other != 0) {
            close(stopping[0]);
            return look();
        }
        close(0), close(1), close(2), close(stopping[1]);
        nurse(getppid());
    }
    if (other != 0)
        return parent_of(other);
    /* A group of its own, with its parent outside: an orphaned one would ignore SIGTSTP. */
    setpgid(0, 0);
    exit(look());
}
