// Blocks SIGTRAP from the start, waits for a line, touches `counter`.
#include <signal.h>
#include <stdio.h>

long counter;

int main(void) {
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_BLOCK, &set, NULL);
  getchar();
  for (int i = 0; i < 50; i++) {
    __asm__ volatile("incq %0" : "+m"(counter) : : "cc");
  }
  sigemptyset(&set);
  sigprocmask(SIG_SETMASK, &set, NULL);
  printf("%ld\n", counter);
  return 0;
}
