// A cleaner drops what a job's owner still uses. The job is one block of malloc among many: both threads allocate all the time.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct job {
  long id, size;
  long *result;
};

static void wait_up_to(long microseconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  usleep((unsigned)(now.tv_nsec / 7 % microseconds));
}

static long use_blocks(int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) {
    long *block = malloc(sizeof(struct job));
    block[2] = i;
    sum += block[2];
    free(block);
  }
  return sum;
}

static void *clean(void *argument) {
  struct job *job = argument;
  long sum = use_blocks(20);
  wait_up_to(4000);
  job->result = NULL; // @drop
  return (void *)sum;
}

int main(void) {
  pthread_t cleaner;
  struct job *job = malloc(sizeof *job);
  job->result = calloc(1, sizeof *job->result);
  pthread_create(&cleaner, NULL, clean, job);
  job->size = use_blocks(20);
  wait_up_to(2500);
  *job->result += 5; // @use
  printf("%ld\n", job->size);
  pthread_join(cleaner, NULL);
  return 0;
}
