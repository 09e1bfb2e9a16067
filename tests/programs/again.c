/* Writes `stage` once in each of the programs that it runs one after the other: itself, THREE times.
 * Says `ready`, then starts when standard input has a byte or ends. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int stage;

int main(int count, char **words) {
    int left = count > 1 ? atoi(words[1]) : 3;
    char byte, number[2] = {(char)('0' + left - 1), 0};
    if (count < 3) {
        puts("ready"), fflush(stdout);
        if (read(0, &byte, 1) < 0)
            return 1;
    }
    *(volatile int *)&stage = left; /* @write */
    if (left > 1)
        execl("/proc/self/exe", words[0], number, "again", NULL);
    return 3;
}
