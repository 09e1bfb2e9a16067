/* A virtual function: calls through its slot of this hierarchy's tables are its callers, no others. */
#include <cstdlib>

struct Shape { // maybe
    virtual ~Shape() {} // out
    virtual int corners() { return 0; } // out
    virtual int read(int *cell) { return 0; } // out
};

struct Square : Shape { // maybe
    int corners() override { return 4; } // out
    int read(int *cell) override
    {
        return *cell; // from
    }
};

struct Source { // out
    virtual ~Source() {} // out
    virtual int size() { return 1; } // out
    virtual int next(int *cell) { return 2; } // out
};

__attribute__((noinline)) Shape *make(int kind)
{
    return kind > 1 ? new Square : new Shape; // maybe
}

__attribute__((noinline)) int use(Shape *shape, int *cell)
{
    if (shape->corners() > 3) // maybe
        return shape->read(cell); // in
    return shape->corners(); // out
}

__attribute__((noinline)) int other(Source *source, int *cell)
{
    return source->next(cell); // out
}

int spare;

int main(int count, char **words)
{
    Source *source = new Source; // out
    if (other(source, &spare) > 2) // out
        spare++; // out
    int *cell = count > 2 ? (int *)calloc(1, 4) : nullptr; // in
    Shape *shape = make(count); // maybe
    return use(shape, cell); // in
}
