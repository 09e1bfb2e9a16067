#!/usr/bin/env python3
"""A decoder as generators write them, to standard output: a statement a field. While it works, somebody may take its table away."""

FIELDS, A_FUNCTION = 520, 40

print("""/* Made by decoder.py. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct table {
    int scale;
} table = {1};

static int pause_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_nsec / 1000 % 2000);
}
""")
groups = range(0, FIELDS, A_FUNCTION)
for first in groups:
    print(f"static int fields_{first:03}(int weight) {{")
    for field in range(first, min(first + A_FUNCTION, FIELDS)):
        print(f"    weight += {field % 7 + 1} * table.scale; /* field {field:03} */")
    print("    return weight;\n}\n")
print("""static void *decode(void *unused) {
    int weight = 0;
    usleep((useconds_t)pause_us());""")
for first in groups:
    print(f"    weight = fields_{first:03}(weight);")
print("""    printf("%d\\n", 1000000 / weight); /* @fail */
    return unused;
}

int main(void) {
    pthread_t decoder;
    pthread_create(&decoder, NULL, decode, NULL);
    usleep(1000);
    table.scale = 0; /* @clear */
    pthread_join(decoder, NULL);
    return 0;
}""")
