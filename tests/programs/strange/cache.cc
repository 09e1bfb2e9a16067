// A cache for several types: the failing statement is in a template, of which there are several instances.
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <unistd.h>

// Waits for a device, for some time between two bounds in microseconds.
static void wait(int least, int most) {
    static thread_local std::minstd_rand engine(std::random_device{}());
    usleep(std::uniform_int_distribution<int>(least, most)(engine));
}

template <typename T> class Cache {
    std::vector<T *> slots;

public:
    explicit Cache(size_t size) : slots(size) {
        for (auto &slot : slots)
            slot = new T();
    }

    __attribute__((noinline)) bool is_set(size_t at) {
        T *slot = slots[at];    // @read
        return !(*slot == T()); // @use
    }

    T take(size_t at) { return *slots[at]; }

    void put(size_t at, const T &value) {
        T *old = slots[at];
        slots[at] = nullptr; // @clear
        delete old;
        wait(200, 1000);
        T *fresh = new T(value);
        slots[at] = fresh; // @set
    }
};

static Cache<long> counters(4);
static Cache<double> rates(4);
static Cache<std::string> names(4);

static void writer() {
    wait(1000, 20000);
    counters.put(0, 1);
}

static void reader() {
    long sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += counters.is_set(0);
        wait(2000, 8000);
    }
    std::printf("%ld\n", sum);
}

int main() {
    names.put(0, "first");
    rates.put(0, 0.5);
    std::thread one(writer), two(reader);
    one.join();
    two.join();
    std::printf("%s %g\n", names.take(0).c_str(), rates.take(0));
}
