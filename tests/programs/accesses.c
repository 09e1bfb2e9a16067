/* Every way to touch a variable, by four threads that take turns: ROUNDS times each line, in each thread.
 * A comment `hits: …` names what one execution of its line does to `row.cell.shared`, `handler` or `jumper`.
 * Says `ready`, then starts when standard input has a byte or ends. Build without a red zone: there are pushes in here. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define BARRIER __asm__ volatile("" ::: "memory")
#define EXCHANGE_BOTH(at, low, high, with) \
    __asm__ volatile("lock cmpxchg16b %0" : "+m"(at), "+a"(low), "+d"(high) : "b"(with), "c"(with) : "cc", "memory")
#define SCRATCH "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory"

struct cell {
    long head[3];
    long shared;
    long tail[4];
};

/* 256 bytes: whether the library copies them with registers of 16, 32 or 64 bytes, each byte is touched once. */
struct row {
    struct cell before[2], cell, after;
};

struct row row __attribute__((aligned(256)));
void (*handler)(void);
void *jumper;

static struct row other __attribute__((aligned(256)));
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static long rounds;

static void nothing(void) {
    BARRIER;
}

static long compiled(long value) {
    long seen;
    row.cell.shared = value; /* hits: W */
    BARRIER;
    seen = row.cell.shared; /* hits: R */
    BARRIER;
    row.cell.shared++; /* hits O0: R W */ /* hits O2: RW */
    BARRIER;
    row.cell.shared -= 3; /* hits O0: R W */ /* hits O2: RW */
    BARRIER;
    seen += row.cell.shared == 12345; /* hits: R */
    BARRIER;
    ((volatile char *)&row.cell.shared)[3] = (char)value; /* hits: W */
    seen += ((volatile short *)&row.cell.shared)[1]; /* hits: R */
    *(volatile long *)((char *)&row.cell.shared - 4) = value; /* hits: W */
    seen += *(volatile int *)((char *)&row.cell.shared + 4); /* hits: R */
    copy(&row, &other, sizeof row); /* hits: W */
    copy(&other, &row, sizeof row); /* hits: R */
    return seen;
}

static long atomic(long value) {
    long seen = __atomic_fetch_add(&row.cell.shared, value, __ATOMIC_SEQ_CST); /* hits: RW atomic */
    __atomic_add_fetch(&row.cell.shared, 7, __ATOMIC_SEQ_CST); /* hits: RW atomic */
    seen += __atomic_exchange_n(&row.cell.shared, value, __ATOMIC_SEQ_CST); /* hits: RW atomic */
    long expected = value;
    __atomic_compare_exchange_n(&row.cell.shared, &expected, value + 1, 0, 5, 5); /* hits: RW atomic */
    expected = value - 1;
    __atomic_compare_exchange_n(&row.cell.shared, &expected, value + 2, 0, 5, 5); /* hits: R atomic */
    return seen + expected;
}

static long instructions(long value) {
    long seen = 0, low = row.cell.head[2], high;
    void *to = &row.cell, *from = &other.cell;
    size_t words = sizeof row.cell / 8;
    __asm__ volatile("pushq %1; popq %0" : "=r"(seen) : "m"(row.cell.shared)); /* hits: R */
    __asm__ volatile("pushq %1; popq %0" : "=m"(row.cell.shared) : "r"(value)); /* hits: W */
    __asm__ volatile("notq %0" : "+m"(row.cell.shared)); /* hits: RW */
    __asm__ volatile("lock btsq $5, %0" : "+m"(row.cell.shared)); /* hits: RW atomic */
    __asm__ volatile("cmpq $0, %0" ::"m"(row.cell.shared) : "cc"); /* hits: R */
    __asm__ volatile("movq %0, %%xmm0" ::"m"(row.cell.shared) : "xmm0"); /* hits: R */
    __asm__ volatile("movdqa %0, %%xmm1" ::"m"(row.cell.head[2]) : "xmm1"); /* hits: R */
    __asm__ volatile("paddq %xmm1, %xmm1");
    __asm__ volatile("movdqa %%xmm1, %0" : "=m"(row.cell.head[2])::"memory"); /* hits: W */
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(value) : "memory"); /* hits: W */
    to = &row.cell, words = sizeof row.cell / 8;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words)::"memory"); /* hits: W */
    to = &other.cell, from = &row.cell, words = sizeof row.cell / 8;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words)::"memory"); /* hits: R */
    to = &other.cell.shared, from = &row.cell.shared;
    __asm__ volatile("movsq" : "+D"(to), "+S"(from)::"memory"); /* hits: R */
    low = row.cell.head[2];
    high = row.cell.shared; /* hits: R */
    BARRIER;
    EXCHANGE_BOTH(row.cell.head[2], low, high, value); /* hits: RW atomic */
    __asm__ volatile("call *%0" ::"m"(handler) : SCRATCH); /* hits: R */
    __asm__ volatile("leaq 1f(%%rip), %%rax; movq %%rax, %0; jmp *%0; 1:" : "+m"(jumper)::"rax"); /* hits: W R */
    return seen + low + high;
}

static void *work(void *argument) {
    long number = (long)argument, sum = 0;
    for (long round = 0; round < rounds; round++) {
        long value = (number << 40) + (round << 8) + 1;
        pthread_mutex_lock(&turn);
        sum += compiled(value) + atomic(value) + instructions(value);
        pthread_mutex_unlock(&turn);
    }
    return (void *)sum;
}

int main(int count, char **words) {
    pthread_t threads[THREADS];
    char byte;
    rounds = count > 1 ? atol(words[1]) : 1;
    handler = nothing; /* before the start */
    puts("ready"), fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    for (long number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, work, (void *)(number + 1));
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    puts("done");
    return 3;
}
