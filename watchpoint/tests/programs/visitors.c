// 200 threads that come and go, at most eight at a time; each adds one to `counter` twenty times.
//
//   visitors [wait]
#include <pthread.h>
#include <stdio.h>

#define VISITORS 200
#define ROUNDS 20
#define AT_ONCE 8

long counter;

static void *visit(void *unused) {
  for (int i = 0; i < ROUNDS; i++) {
    __asm__ volatile("lock incq %0" : "+m"(counter) : : "cc");
  }
  return unused;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    getchar();
  }
  for (int first = 0; first < VISITORS; first += AT_ONCE) {
    pthread_t threads[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
      pthread_create(&threads[i], NULL, visit, NULL);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      pthread_join(threads[i], NULL);
    }
  }
  printf("%ld\n", counter);
  return 0;
}
