// Opens the library when a line arrives, and uses it after another one.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  (void)argc;
  getchar();
  void *library = dlopen(argv[1], RTLD_NOW);
  long (*count)(void) = (long (*)(void))dlsym(library, "count");
  getchar();
  count();
  printf("%ld\n", count());
  return 0;
}
