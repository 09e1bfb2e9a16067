// 200 threads in waves of eight, each of which prints its number; some create another.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(void) {
    char text[32];
    int len = snprintf(text, sizeof text, "%ld\n", syscall(SYS_gettid));
    if (write(1, text, len) != len) _exit(9);
}

static void *inner(void *arg) {
    say();
    return arg;
}

static void *outer(void *arg) {
    pthread_t thread;
    say();
    pthread_create(&thread, NULL, inner, NULL);
    pthread_join(thread, NULL);
    return arg;
}

int main(void) {
    for (int wave = 0; wave < 25; wave++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, outer, NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
    return 7;
}
