// A database's binary log. Every committed transaction must be in it, or the
// replicas differ from the primary. When the log has grown, it is rotated: the
// file is closed and the next one is opened.

#include <cassert>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>
#include <thread>

enum LogState { LOG_CLOSED, LOG_OPENED };

static void wait_microseconds(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

class BinaryLog {
public:
    void open(int number)
    {
        name_ = "binlog." + std::to_string(number);
        position_ = 4;
        state_ = LOG_OPENED; // @state-open
    }

    void close()
    {
        state_ = LOG_CLOSED; // @state-close
        position_ = 0;
    }

    // The lock keeps events apart from each other. That the log is off when
    // it is not open is checked before, so that a server without one pays nothing.
    bool write(const std::string& event)
    {
        if (state_ != LOG_OPENED) // @state-read
            return false;

        std::lock_guard<std::mutex> guard(lock_);
        position_ += event.size();
        events_++;
        return true;
    }

    void rotate(int number);

    void print_status() const
    {
        std::printf("%s: position %lu, %lu events, %s\n", name_.c_str(), position_, events_,
                    state_ == LOG_OPENED ? "open" : "closed");
    }

private:
    LogState state_ = LOG_CLOSED;
    std::mutex lock_;
    std::string name_;
    unsigned long position_ = 0;
    unsigned long events_ = 0;
};

void BinaryLog::rotate(int number)
{
    std::lock_guard<std::mutex> guard(lock_);
    close(); // @close
    wait_microseconds(500, 1800);
    open(number); // @reopen
}

static constexpr int TRANSACTIONS = 5;
static BinaryLog binlog;
static unsigned long committed;

static void sync_engine()
{
    wait_microseconds(3000, 5000);
}

// The log comes first: what the engine has committed, the replicas must get.
static void commit(const std::string& event)
{
    bool logged = binlog.write(event); // @write
    sync_engine();
    committed++;
    assert(logged); // @fail
}

static void run_transactions()
{
    for (int i = 0; i < TRANSACTIONS; i++) {
        std::string event = "UPDATE account SET balance = " + std::to_string(i * 37);
        wait_microseconds(0, 6000);
        commit(event); // @commit
    }
}

static void flush_logs()
{
    wait_microseconds(1000, 32000);
    binlog.rotate(2);
}

int main()
{
    binlog.open(1);
    std::thread client(run_transactions);
    std::thread admin(flush_logs);
    client.join();
    admin.join();
    binlog.print_status();
    std::printf("%lu transactions committed\n", committed);
    return 0;
}
