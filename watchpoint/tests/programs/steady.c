// Four threads that touch `counter` for half a second or so, and more threads that come and go meanwhile. Prints
// how often, and how many sleeps were interrupted: none, if nobody interferes.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define THREADS 4
#define ROUNDS 150

long counter;
static atomic_int interrupted;

static void pause_a_little(void) {
  struct timespec pause = {0, 2000000};
  if (nanosleep(&pause, NULL) != 0 && errno == EINTR) {
    interrupted++;
  }
}

static void *visit(void *unused) {
  __asm__ volatile("lock incq %0" : "+m"(counter) : : "cc");
  return unused;
}

static void *work(void *unused) {
  for (int i = 0; i < ROUNDS; i++) {
    __asm__ volatile("lock incq %0" : "+m"(counter) : : "cc");
    if (i % 10 == 0) {
      pthread_t visitor;
      pthread_create(&visitor, NULL, visit, NULL);
      pthread_join(visitor, NULL);
    }
    pause_a_little();
  }
  return unused;
}

int main(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, work, NULL);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  printf("%ld %d\n", counter, (int)interrupted);
  return 5;
}
