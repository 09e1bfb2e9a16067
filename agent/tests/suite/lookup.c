/* Fails in every third run, over what a search did not find. */
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    long value;
};

static const struct entry entries[] = {{"one", 1}, {"two", 2}};

static const struct entry *find(const char *name)
{
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

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
    const struct entry *found = find(next(argv[1]) % 3 == 0 ? "three" : "two");
    printf("%ld\n", found->value); /* @fail */
    return 0;
}
