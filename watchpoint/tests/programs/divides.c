// A thread resets a number that another one divides by: the program dies of it, for certain.
#include <pthread.h>
#include <stddef.h>

unsigned divisor = 7;

static void *reset(void *unused) {
  divisor = 0;
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, reset, NULL);
  pthread_join(thread, NULL);
  unsigned quotient = 70, remainder = 0;
  __asm__ volatile("divl divisor(%%rip)" : "+a"(quotient), "+d"(remainder));
  return (int)quotient;
}
