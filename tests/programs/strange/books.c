/* Money is booked three times: in the cash book, in the bank book, and in the total of both. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

struct books {
    long cash;
    long bank;
    long total;
    long bookings;
};

static pthread_mutex_t cash_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t bank_lock = PTHREAD_MUTEX_INITIALIZER;

static void wait_microseconds(unsigned least, unsigned most)
{
    unsigned r;
    if (getrandom(&r, sizeof r, 0) < 0)
        r = 0;
    usleep(least + r % (most - least + 1));
}

/* Each book has its lock, and the total is written under either. */
static void book_cash(struct books *b, long amount)
{
    pthread_mutex_lock(&cash_lock);
    b->cash += amount;
    long total = b->total;
    wait_microseconds(20, 600);
    b->total = total + amount;
    pthread_mutex_unlock(&cash_lock);
}

static void book_bank(struct books *b, long amount)
{
    pthread_mutex_lock(&bank_lock);
    b->bank += amount;
    b->total += amount;
    pthread_mutex_unlock(&bank_lock);
}

static void *cashier(void *arg)
{
    for (int i = 0; i < 3; i++) {
        wait_microseconds(0, 20000);
        book_cash(arg, 5);
    }
    return NULL;
}

static void *banker(void *arg)
{
    for (int i = 0; i < 3; i++) {
        wait_microseconds(0, 20000);
        book_bank(arg, 7);
    }
    return NULL;
}

static void close_books(const struct books *b)
{
    assert(b->cash + b->bank == b->total); /* @fail */
}

static void report(const struct books *b)
{
    printf("%ld in cash, %ld in the bank, %ld in all\n", b->cash, b->bank, b->total);
}

int main(void)
{
    struct books books = {0};
    pthread_t a, b;
    pthread_create(&a, NULL, cashier, &books);
    pthread_create(&b, NULL, banker, &books);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    wait_microseconds(2000, 4000);
    close_books(&books);
    report(&books);
    return 0;
}
