/* Touches `shared` with SIGTRAP blocked, in one thread, and without, in another. Says `halfway` and waits for a
 * byte of standard input; then unblocks SIGTRAP, touches it again and ends. First waits for a byte, too. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

long shared;

static void touch(int times) {
    for (int time = 0; time < times; time++)
        __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST);
}

static void *open_minded(void *argument) {
    touch(50);
    return argument;
}

int main(void) {
    sigset_t trap, pending;
    pthread_t thread;
    char byte;
    pthread_create(&thread, NULL, open_minded, NULL);
    pthread_join(thread, NULL);
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &trap, NULL);
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    touch(50);
    puts("halfway"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    sigpending(&pending);
    printf("pending %d\n", sigismember(&pending, SIGTRAP));
    pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
    pthread_create(&thread, NULL, open_minded, NULL);
    pthread_join(thread, NULL);
    touch(50);
    printf("%ld\n", shared);
    return 3;
}
