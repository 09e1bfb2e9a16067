// A library with a variable that its constructor writes.
long shared_counter;

__attribute__((constructor)) static void begin(void) { shared_counter = 40; }

long count(void) { return shared_counter += 1; }
