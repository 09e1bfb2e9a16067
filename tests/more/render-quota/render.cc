// Renders pages on a few threads. Every page needs memory from one budget; what was rendered gives it back.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void rest(int least_micros, int most_micros)
{
    thread_local std::default_random_engine engine(std::random_device{}());
    std::uniform_int_distribution<int> micros(least_micros, most_micros);
    std::this_thread::sleep_for(std::chrono::microseconds(micros(engine)));
}

// Threads that do whatever they are handed.
class Pool {
public:
    explicit Pool(int threads)
    {
        for (int i = 0; i < threads; i++)
            threads_.emplace_back([this] { work(); });
    }

    ~Pool()
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            closing_ = true;
        }
        filled_.notify_all();
        for (auto& thread : threads_)
            thread.join();
    }

    void submit(std::function<void()> task)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        filled_.notify_one();
    }

private:
    void work()
    {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                filled_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
                if (tasks_.empty())
                    return;
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task(); // @task
        }
    }

    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::function<void()>> tasks_;
    std::vector<std::thread> threads_;
    bool closing_ = false;
};

class Budget {
public:
    explicit Budget(long megabytes) : free_(megabytes), total_(megabytes) {}

    bool has(long megabytes) const
    {
        std::shared_lock<std::shared_mutex> lock(mutex_);
        return free_ >= megabytes; // @room-check
    }

    void take(long megabytes)
    {
        std::unique_lock<std::shared_mutex> lock(mutex_);
        free_ -= megabytes; // @room-take
        if (free_ < 0)      // @room-left
            throw std::underflow_error("more memory taken than there is"); // @fail
    }

    void give(long megabytes)
    {
        std::unique_lock<std::shared_mutex> lock(mutex_);
        free_ += megabytes;
    }

    void print() const
    {
        std::shared_lock<std::shared_mutex> lock(mutex_);
        std::printf("%ld of %ld MB free\n", free_, total_);
    }

private:
    mutable std::shared_mutex mutex_;
    long free_;
    long total_;
};

class Page {
public:
    Page(std::string title, long megabytes) : title_(std::move(title)), megabytes_(megabytes) {}

    bool render(Budget& budget)
    {
        if (!budget.has(megabytes_)) { // @check
            waited_++;
            return false;
        }
        rest(150, 900); // fonts
        budget.take(megabytes_); // @take
        rest(1000, 3500);
        lines_ = title_.size() * 40;
        budget.give(megabytes_);
        return true;
    }

    std::string line() const { return title_ + ": " + std::to_string(lines_) + " lines, put off " + std::to_string(waited_); }

private:
    std::string title_;
    long megabytes_;
    std::size_t lines_ = 0;
    int waited_ = 0;
};

void print_pages(const std::map<int, Page>& pages)
{
    for (const auto& [number, page] : pages)
        std::printf("%d %s\n", number, page.line().c_str());
}

} // namespace

int main()
{
    Budget budget(60);
    std::map<int, Page> pages;
    const char* titles[] = {"cover", "contents", "preface", "methods", "results", "index"};
    for (int i = 0; i < 6; i++)
        pages.emplace(i, Page(titles[i], 20 + 5 * (i % 3)));
    {
        Pool pool(4);
        for (auto& [number, page] : pages) {
            rest(300, 4000);
            Page* one = &page;
            pool.submit([one, &budget] {
                while (!one->render(budget)) // @render
                    rest(500, 1500);
            });
        }
    }
    print_pages(pages);
    budget.print();
    return 0;
}
