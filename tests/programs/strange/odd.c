/* Fails in ways that are told from the outside in different places; its argument says how. A thread that is late or
   early decides in some of the runs, unless said otherwise. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct order {
    char *name;
    int count;
};

static struct order *order;
static int total, printed;
static char *names[2];

static void wait_some(unsigned most)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(((unsigned)now.tv_nsec / 64 ^ (unsigned)getpid() * 31) % most);
}

static void *cancel(void *unused)
{
    wait_some(4000);
    order->name = NULL; /* @cancel */
    return unused;
}

__attribute__((noinline)) static int ship(void)
{
    return order->name[0]; /* @ship */
}

static int shipping(void)
{
    pthread_t canceller;
    order = calloc(1, sizeof *order);
    order->name = strdup("anchors");
    pthread_create(&canceller, NULL, cancel, NULL);
    usleep(2000);
    int first = ship();
    pthread_join(canceller, NULL);
    return first == 0;
}

static void say_goodbye(int signal)
{
    static const char text[] = "going down\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(128 + signal);
}

static void note(int signal)
{
    (void)signal;
}

static int handled(void)
{
    struct sigaction action = {.sa_handler = say_goodbye};
    sigaction(SIGSEGV, &action, NULL);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    ualarm(500, 500);
    return shipping();
}

static int worker(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(shipping());
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1 : 0;
}

static void *count(void *unused)
{
    wait_some(*(unsigned *)unused);
    int seen = total; /* @read */
    usleep(100);
    total = seen + 1; /* @write */
    return unused;
}

static int counting(void)
{
    pthread_t threads[2];
    unsigned most[2] = {100, 3000};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, &most[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printed = total;
    printf("total %d\n", printed); /* @print */
    return printed == 2 ? 0 : 4; /* @status */
}

static int overflow(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = now.tv_nsec / 64 % 3 ? 24 : 40;
    names[0] = malloc(24);
    names[1] = malloc(24);
    memset(names[0], 'x', (size_t)length); /* @overflow */
    usleep(100);
    free(names[1]); /* @free */
    free(names[0]);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "handled"))
        return handled();
    if (!strcmp(how, "worker"))
        return worker();
    if (!strcmp(how, "counting"))
        return counting();
    if (!strcmp(how, "overflow"))
        return overflow();
    if (!strcmp(how, "loud"))
        for (int i = 0; i < 200000; i++)
            puts("a line of output that nobody reads and that has to go somewhere all the same");
    if (!strcmp(how, "long"))
        sleep(3);
    return shipping();
}
