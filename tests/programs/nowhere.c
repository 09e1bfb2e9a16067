/* Fails at first in a thread that has no code of the program, as a thread does whose end finds the heap damaged; then in its own code. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int withdraw(int *account, int amount)
{
    *account -= amount; /* @own */
    return *account;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    FILE *ran = fopen(argv[1], "r");
    if (ran) {
        fclose(ran);
        return withdraw(NULL, 20);
    }
    ran = fopen(argv[1], "w");
    if (ran)
        fclose(ran);
    pthread_t thread;
    pthread_create(&thread, NULL, (void *(*)(void *))abort, NULL);
    pthread_join(thread, NULL);
    return 0;
}
