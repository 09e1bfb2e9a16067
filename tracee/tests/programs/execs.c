// Executes another program, from its first thread or from another, while more threads run.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void *wait_long(void *arg) {
    for (;;) pause();
    return arg;
}

static void *execute(void *arg) {
    execl("/bin/echo", "echo", "executed", NULL);
    return arg;
}

int main(int argc, char **argv) {
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, wait_long, NULL);
    if (argc > 1 && !strcmp(argv[1], "thread")) {
        pthread_create(&thread, NULL, execute, NULL);
        wait_long(NULL);
    }
    execute(NULL);
    return 1;
}
