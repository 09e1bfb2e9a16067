/* A screen that can be resized while it is captured. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct screen {
    int width;
    int height;
    long resized;
};

static struct screen screen = {80, 25, 0};
static long captured;

static void wait_microseconds(unsigned least, unsigned most)
{
    unsigned r;
    if (getrandom(&r, sizeof r, 0) < 0)
        r = 0;
    usleep(least + r % (most - least + 1));
}

/* The terminal is told after each of the two. */
static void resize(struct screen *s, int width, int height)
{
    s->width = width; /* @width-write */
    wait_microseconds(100, 700);
    s->height = height;
    s->resized++;
}

static void *resizer(void *arg)
{
    wait_microseconds(0, 9000);
    resize(arg, 40, 50);
    wait_microseconds(0, 9000);
    resize(arg, 80, 25);
    return NULL;
}

/* The number of cells is the same in every layout. */
static long capture(struct screen *s)
{
    int width = s->width; /* @width-read */
    int height = s->height; /* @height-read */
    long cells = (long)width * height;
    assert(cells == 2000); /* @fail */
    return cells;
}

static void *recorder(void *arg)
{
    for (int i = 0; i < 3; i++) {
        wait_microseconds(0, 6000);
        captured += capture(arg);
    }
    return NULL;
}

static void report(void)
{
    printf("%ld cells captured, resized %ld times to %dx%d\n", captured, screen.resized, screen.width, screen.height);
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, resizer, &screen);
    pthread_create(&b, NULL, recorder, &screen);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    report();
    return 0;
}
