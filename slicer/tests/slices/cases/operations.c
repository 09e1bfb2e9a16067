/* A function in a table of operations that objects point to: calls through the member of that name are its callers. */
#include <stdlib.h>

struct file;

struct operations {
    int (*open)(struct file *);
    int (*read)(struct file *, int *);
    int (*close)(struct file *);
};

struct filter {
    int (*start)(int);
    int (*next)(int, int *);
};

struct file {
    int state;
    const struct operations *ops;
};

static int open_disk(struct file *file) { return file->state++; } // maybe

static int read_disk(struct file *file, int *into)
{
    return *into; // from
}

static int close_disk(struct file *file) { return file->state--; } // maybe

const struct operations disk = { open_disk, read_disk, close_disk };

__attribute__((noinline)) void prepare(struct file *file)
{
    file->ops = &disk; // maybe
}

__attribute__((noinline)) int fetch(struct file *file, int *into)
{
    file->ops->open(file); // maybe
    int got = file->ops->read(file, into); // in
    file->ops->close(file); // out
    return got; // out
}

__attribute__((noinline)) int pass(struct filter *filter, int *into)
{
    return filter->next(3, into); // out
}

static int twice(int from, int *into) { return from * 2; } // out

int main(int count, char **words)
{
    struct filter filter = { 0, twice }; // out
    int rest = 0; // out
    pass(&filter, &rest); // out
    struct file *file = calloc(1, sizeof *file); // maybe
    int *into = count > 2 ? calloc(1, 4) : NULL; // in
    prepare(file); // maybe
    return fetch(file, into); // in
}
