// A program with SIGTRAPs of its own, and one that blocks them.
//
//   signals own|blocked [wait]
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 50

long counter;
static volatile sig_atomic_t trapped;

static void on_trap(int signal) {
  (void)signal;
  trapped++;
}

static void touch(void) {
  __asm__ volatile("incq %0" : "+m"(counter) : : "cc");
}

int main(int argc, char **argv) {
  if (argc > 2) {
    getchar();
  }
  if (!strcmp(argv[1], "own")) {
    signal(SIGTRAP, on_trap);
    for (int i = 0; i < ROUNDS; i++) {
      touch();
      if (i % 10 == 0) {
        raise(SIGTRAP);
      }
      if (i % 10 == 5) {
        __asm__ volatile("int3");
      }
    }
  } else {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigprocmask(SIG_BLOCK, &set, &before);
    for (int i = 0; i < ROUNDS; i++) {
      touch();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
  }
  printf("%ld %d\n", counter, (int)trapped);
  return 3;
}
