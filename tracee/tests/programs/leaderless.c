// The first thread ends at once; another waits for a byte and ends the process.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int marked = 11;

static void *wait_for_byte(void *arg) {
    char byte;
    printf("ready\n");
    fflush(stdout);
    if (read(0, &byte, 1) != 1) exit(1);
    exit(9);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_byte, NULL);
    pthread_exit(NULL);
}
