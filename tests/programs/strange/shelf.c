/* Two readers give a document back that stands on a shelf. Each drops its reference and looks at the count later, and both may
   find that nobody has the document any more. It comes from a function that everything is allocated with. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct document {
    char title[40];
    atomic_int readers;
    char text[4000];
};

struct shelf {
    char *name;
    struct document *first;
};

static struct shelf *shelves[4];

__attribute__((noinline)) static void *get_memory(size_t size)
{
    void *memory = malloc(size);
    if (!memory) {
        fputs("out of memory\n", stderr);
        exit(3);
    }
    memset(memory, 0, size);
    return memory;
}

static void pause_for(unsigned least, unsigned most)
{
    static _Thread_local unsigned seed;
    if (!seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (unsigned)now.tv_nsec * 2654435761u ^ (unsigned)(size_t)&seed;
    }
    usleep(least + (unsigned)rand_r(&seed) % (most - least));
}

__attribute__((noinline)) static void give_back(struct document *document)
{
    atomic_fetch_sub(&document->readers, 1); /* @drop */
    pause_for(100, 1500);
    if (atomic_load(&document->readers) == 0) /* @test */
        free(document); /* @fail */
}

static void *reader(void *shelf)
{
    struct shelf *from = shelf;
    pause_for(500, 12000);
    give_back(from->first);
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        shelves[i] = get_memory(sizeof *shelves[i]);
        shelves[i]->name = get_memory(8);
    }
    struct document *document = get_memory(sizeof *document); /* @make */
    strcpy(document->title, "a treatise");
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(&document->readers, 1); /* @count */
        shelves[i]->first = document;
    }
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&readers[i], NULL, reader, shelves[i]); /* @create */
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    puts("done");
}
