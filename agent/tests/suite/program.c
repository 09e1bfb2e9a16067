/* Fails in every third run, over a pointer that is null then. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

uint64_t secret;
uint64_t place;
uint64_t *target;

static long next(const char *path)
{
    long number = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &number) != 1)
            number = 0;
        fclose(file);
    }
    file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "%ld", number + 1);
    fclose(file);
    return number + 1;
}

int main(int argc, char **argv)
{
    (void)argc;
    long number = next(argv[1]);
    memcpy(&secret, "hunter2!", 8);
    target = number % 3 == 0 ? NULL : &place;
    *target = secret; /* @fail */
    return 0;
}
