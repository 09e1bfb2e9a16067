// A known number of accesses to `counter` by four threads, in one of several ways.
//
//   counters WAY ROUNDS [wait]
//
// With `wait` nothing happens until a line arrives on standard input.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

long counter;
static int rounds;
static const char *way;

static void *work(void *unused) {
  for (int i = 0; i < rounds; i++) {
    if (!strcmp(way, "plain")) {
      *(volatile long *)&counter = *(volatile long *)&counter + 1;
    } else if (!strcmp(way, "increment")) {
      __asm__ volatile("lock incq %0" : "+m"(counter) : : "cc");
    } else if (!strcmp(way, "add")) {
      __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
      __asm__ volatile("" ::: "memory");
    } else if (!strcmp(way, "fetch")) {
      long before;
      __asm__ volatile("mov $1, %0\n lock xaddq %0, %1" : "=&r"(before), "+m"(counter) : : "cc", "memory");
      __asm__ volatile("" : : "r"(before));
    } else if (!strcmp(way, "exchange")) {
      long seen = __atomic_load_n(&counter, __ATOMIC_SEQ_CST);
      while (!__atomic_compare_exchange_n(&counter, &seen, seen + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      }
    }
  }
  return unused;
}

int main(int argc, char **argv) {
  way = argv[1];
  rounds = atoi(argv[2]);
  if (argc > 3) {
    getchar();
  }
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, work, NULL);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  printf("%ld\n", counter);
  return 7;
}
