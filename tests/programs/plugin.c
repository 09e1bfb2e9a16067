/* A library that is loaded while its user runs. */
int plugged;

void plug(int value) {
    *(volatile int *)&plugged = value; /* @plug */
}
