// Writes when it gets a line, replaces itself, and writes again when it gets another.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

long counter;

int main(int argc, char **argv) {
  char line;
  int again = argc > 1 && !strcmp(argv[1], "again");
  if (read(0, &line, 1) != 1)
    return 1;
  *(volatile long *)&counter = again ? 41 : 40;
  if (!again) {
    execl(argv[0], argv[0], "again", NULL);
    return 1;
  }
  *(volatile long *)&counter = 42;
  return 0;
}
