#include <cstdio>
#include <cstdlib>

namespace ns {

struct Node {
    int value;
    union {
        long tag;
        Node *next;
    };
    struct {
        short low, high;
    } parts[3];
};

template <typename T> class Queue {
  public:
    T pop();
    void push(T value) { push_at(value, 0); }

  private:
    inline __attribute__((always_inline)) void push_at(T value, int at) {
        items[count + at] = value; // stores
        count++;
    }
    T items[16];
    int count = 0;
};

template <typename T> T Queue<T>::pop() {
    if (count == 0)
        abort(); // empty
    return items[--count];
}

static int counter;
int shared = 5;
thread_local int mine = 7;
Node table[4];

} // namespace ns

static inline __attribute__((always_inline)) int twice(int x) {
    static int calls;
    calls++; // counts
    return x * 2 + calls;
}

static __attribute__((noinline)) int work(ns::Queue<int> &queue, int n) {
    for (int i = 0; i < n; i++) {
        int doubled = twice(i);
        queue.push(doubled); // pushes
        ns::counter += doubled;
    }
    ns::table[n & 3].parts[1].high = 3; // nested
    return queue.pop() + ns::shared + ns::mine;
}

int main(int argc, char **argv) {
    ns::Queue<int> queue;
    ns::Queue<long> longs;
    longs.push(argc);
    int result = work(queue, argc + 2);
    printf("%d %ld %s\n", result, longs.pop(), argv[0]);
    return ns::counter == 0;
}
