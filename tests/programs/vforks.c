/* Writes `state` itself, in a child that has its own memory, and in children that have the program's: of vfork, one that
 * ends and one that runs another program. Says `ready`, then starts when standard input has a byte or ends. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int state;

static void wait_for(pid_t child) {
    if (waitpid(child, NULL, 0) != child)
        _exit(1);
}

int main(void) {
    char byte;
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    state = 1; /* @own */
    pid_t child = fork();
    if (child == 0) {
        state = 2;
        _exit(0);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) {
        state = 3;
        _exit(0);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) {
        state = 4;
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    wait_for(child);
    return state == 4 ? 3 : 1; /* @look */
}
