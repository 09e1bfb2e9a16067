// Load is moved between nodes. `array`: three nodes of one array and three movers, two of which may come to wait for one another. `heap`:
// accounts on the heap whose methods lock both.
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

void work(std::mt19937 &random, unsigned most) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most));
}

struct Node {
    std::mutex lock;
    int load = 0;
};

Node nodes[3];

void balance(int from, int to, unsigned seed) {
    std::mt19937 random(seed);
    for (int time = 0; time < 2; time++) {
        work(random, 5000);
        std::lock_guard<std::mutex> giving(nodes[from].lock); // @array-takes
        nodes[from].load--;
        work(random, 300);
        std::lock_guard<std::mutex> taking(nodes[to].lock); // @array-waits
        nodes[to].load++;
    }
}

class Account {
public:
    explicit Account(int start) : balance_(start) {}

    void pay(Account &to, int amount, std::mt19937 &random) {
        std::scoped_lock mine(lock_); // @heap-takes
        balance_ -= amount;
        work(random, 2000);
        to.receive(amount);
    }

private:
    void receive(int amount) {
        std::unique_lock<std::mutex> theirs(lock_); // @heap-waits
        balance_ += amount;
    }

    std::mutex lock_;
    int balance_;
};

void pay(Account *from, Account *to, unsigned seed) {
    std::mt19937 random(seed);
    work(random, 12000);
    from->pay(*to, 5, random);
}

} // namespace

int main(int argc, char **argv) {
    std::random_device device;
    std::vector<std::thread> threads;
    auto one = std::make_unique<Account>(100), two = std::make_unique<Account>(50);
    if (argc > 1 && !std::strcmp(argv[1], "heap")) {
        threads.emplace_back(pay, one.get(), two.get(), device());
        threads.emplace_back(pay, two.get(), one.get(), device());
    } else {
        threads.emplace_back(balance, 0, 1, device());
        threads.emplace_back(balance, 1, 2, device());
        threads.emplace_back(balance, 1, 0, device());
    }
    for (auto &thread : threads)
        thread.join();
}
