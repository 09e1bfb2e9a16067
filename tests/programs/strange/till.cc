// Two clerks charge fees to one till, which is in main's frame. Each account has a lock; what all of them share has none.
#include <cassert>
#include <chrono>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

struct Account {
    std::mutex lock;
    long balance = 100;
};

class Till {
    Account accounts_[2];
    long fees_ = 0;

public:
    void charge(int number, long fee) {
        Account &account = accounts_[number];
        std::lock_guard<std::mutex> guard(account.lock);
        account.balance -= fee;
        long collected = fees_; // @read
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        fees_ = collected + fee; // @write
    }

    void close() {
        long total = fees_;
        for (Account &account : accounts_)
            total += account.balance;
        assert(total == 200); // @fail
    }
};

static void clerk(Till &till, int number) {
    std::mt19937 random(std::random_device{}());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    till.charge(number, 1);
}

int main() {
    Till till;
    std::thread first(clerk, std::ref(till), 0);
    std::thread second(clerk, std::ref(till), 1);
    first.join();
    second.join();
    till.close();
}
