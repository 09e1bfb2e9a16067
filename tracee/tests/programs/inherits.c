// Prints what a program is given: arguments, a variable, the folder, input, signals, process group.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char text[4096];
    for (int i = 1; i < argc; i++) printf("argument %s\n", argv[i]);
    const char *value = getenv("FAILSKETCH_TEST");
    printf("variable %s\n", value ? value : "(none)");
    printf("folder %s\n", getcwd(text, sizeof text));
    printf("same group as parent %d, same session %d\n", getpgrp() == getpgid(getppid()), getsid(0) == getsid(getppid()));
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(text, sizeof text, status))
        if (!strncmp(text, "Sig", 3) && strncmp(text, "SigQ", 4) && strncmp(text, "SigIgn", 6)) fputs(text, stdout);
    fclose(status);
    for (int fd = 3; fd < 100; fd++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (access(path, F_OK) == 0) printf("open %d\n", fd);
    }
    while (fgets(text, sizeof text, stdin)) printf("input %s", text);
    return 0;
}
