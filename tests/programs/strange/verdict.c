/* Goes wrong in every second run or so, and nobody dies of it: the output and the exit status tell. */
#include <stdio.h>
#include <string.h>
#include <time.h>

static int checked(int number)
{
    if (number & 1)
        printf("sum is wrong: %d\n", number); /* @wrong */
    else
        puts("right");
    return number & 1;
}

int main(int count, char **words)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int wrong = checked((int)(now.tv_nsec >> 10));
    if (count > 1 && strcmp(words[1], "status") == 0) {
        if (wrong)
            return 7; /* @seven */
        return 0;
    }
    return 0;
}
