/* Frees twice; its handler prints a backtrace as glibc does, and then lets the process end with a core. */
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>

static void report(int number) {
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((noinline)) static void release(char **slot) {
    free(*slot); /* @fail */
    __asm__ volatile("" : : : "memory");
}

int main(void) {
    signal(SIGABRT, report);
    char *block = malloc(24);
    release(&block);
    release(&block);
    return 0;
}
