// Uses the library twice; with `again` it starts itself anew first. The library's variable is not named here: the
// linker would make a copy of it in the executable, and everybody would use that.
#include <string.h>
#include <unistd.h>

extern long count(void);

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "again")) {
    execl(argv[0], argv[0], NULL);
    return 1;
  }
  count();
  return count() == 42 ? 0 : 1;
}
