// Boxes that one call makes, each used as often as the others.
#include <stdio.h>
#include <stdlib.h>

enum { BOXES = 5 };

struct box {
  long number;
  long used;
};

__attribute__((noinline, noclone)) struct box *make(long number) {
  struct box *box = malloc(sizeof *box);
  box->number = number;
  box->used = 0;
  return box;
}

__attribute__((noinline, noclone)) void use(struct box *box) {
  box->used = box->used + box->number;
}

int main(void) {
  struct box *boxes[BOXES];
  long sum = 0;
  for (long i = 0; i < BOXES; i++) {
    boxes[i] = make(i + 1);
  }
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < BOXES; i++) {
      use(boxes[i]);
    }
  }
  for (int i = 0; i < BOXES; i++) {
    sum += boxes[i]->number;
  }
  printf("%ld\n", sum);
  return 0;
}
