/* A function that only a table names: the calls through the table are its callers. */
typedef int (*handler)(int *);

int idle(int *cell) { return 0; } // maybe

int read_cell(int *cell)
{
    return *cell; // from
}

int size_of(int *cell) { return 4; } // maybe

static const struct { int verb; handler run; } handlers[] = {
    { 1, idle },
    { 2, read_cell },
    { 3, size_of },
};

int store[4]; // maybe

int dispatch(int verb)
{
    int *cell = verb > 2 ? 0 : &store[verb]; // in
    for (int at = 0; at < 3; at++) // in
        if (handlers[at].verb == verb) // in
            return handlers[at].run(cell); // in
    return -1; // out
}

int other(int verb)
{
    return verb * 3; // out
}

int main(int count, char **words)
{
    int first = count; // in
    other(first); // out
    return dispatch(first); // in at -O0
}
