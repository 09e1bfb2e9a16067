#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int counter;

__attribute__((noinline)) void die(const char *message) {
    puts(message);
    exit(3);
}

__attribute__((noinline)) int choose(int which, int value) {
    switch (which) {
    case 0: return value + 1;
    case 1: return value * 7;
    case 2: puts("two"); return 5;
    case 3: return abs(value) + 9;
    case 4: return value << 3;
    case 5: die("five");
    case 6: return value ^ 0x55;
    case 7: return rand();
    }
    return -1;
}

/* The table's address is loaded once, outside the loop. */
__attribute__((noinline)) int interpret(const unsigned char *code, int value) {
    for (;; code++) {
        switch (*code) {
        case 0: return value;
        case 1: value += 3; break;
        case 2: value *= 5; break;
        case 3: value = choose(value, 1); break;
        case 4: value -= counter; break;
        case 5: counter++; break;
        case 6: value = abs(value) + rand(); break;
        case 7: puts("seven"); break;
        }
    }
}

__attribute__((noinline)) int hand_on(int value) {
    if (value > 3) return choose(value, 3);
    return puts("no");
}

void (*handlers[])(const char *) = {die, (void (*)(const char *))hand_on};

int main(int argc, char **argv) {
    assert(argc < 10);
    counter += argc;
    handlers[argc & 1]("x");
    return choose(argc, 2) + hand_on(argc) + interpret((const unsigned char *)argv[0], counter);
}
