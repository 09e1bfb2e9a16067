// Says where its variables and functions are; opens and closes a library when told to.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int initialised = 7;
int zeroed[5000];

int function(int x) { return x + initialised; }

int main(int argc, char **argv) {
    char line[64];
    void *library = NULL;
    (void)argc;
    printf("%p %p %p\n", (void *)&initialised, (void *)&zeroed[4999], (void *)function);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "open\n")) {
            library = dlopen(argv[1], RTLD_NOW);
            printf("%p\n", library ? dlsym(library, "in_library") : NULL);
        } else {
            dlclose(library);
            printf("closed\n");
        }
        fflush(stdout);
    }
    return 0;
}
