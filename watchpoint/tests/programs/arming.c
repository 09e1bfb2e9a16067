// Objects whose addresses become known in different places.
//
//   arming [wait]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
  long number;
  long done;
  long result;
};

__attribute__((noinline, noclone)) void finish(struct job *job) {
  job->done = job->done + 1;
}

static void *worker(void *argument) {
  struct job *job = argument;
  job->result = job->number * 2;
  finish(job);
  return NULL;
}

__attribute__((noinline, noclone)) struct job *make(long number) {
  struct job *job = malloc(sizeof *job);
  job->number = number;
  job->done = 0;
  job->result = 0;
  return job;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    getchar();
  }
  struct job *job = make(21);
  pthread_t thread;
  pthread_create(&thread, NULL, worker, job);
  pthread_join(thread, NULL);
  finish(job);
  printf("%ld %ld\n", job->done, job->result);
  return 0;
}
