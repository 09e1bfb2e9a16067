// A thread resets a pointer that another one uses: the program dies of it, for certain.
#include <pthread.h>
#include <stddef.h>

static long value = 7;
long *shared = &value;

static void *reset(void *unused) {
  shared = NULL;
  return unused;
}

int main(void) {
  long sum = *shared;
  pthread_t thread;
  pthread_create(&thread, NULL, reset, NULL);
  pthread_join(thread, NULL);
  return (int)(sum + *shared);
}
