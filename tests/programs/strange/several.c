/* Goes wrong in every second run or so, in ways that look the same from outside. */
#include <stdio.h>
#include <string.h>
#include <time.h>

static int measured(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_nsec >> 10);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    int number = measured();
    if (strcmp(way, "status") == 0) {
        if ((number & 3) == 1)
            return 5; /* @first */
        if ((number & 3) == 2)
            return 6; /* @alone */
        if ((number & 3) == 3)
            return 5; /* @second */
        return 0;
    }
    if (number & 1)
        printf("too much: %d\n", number); /* @odd */
    else if (number & 2)
        printf("too much: %d\n", number); /* @even */
    return 0;
}
