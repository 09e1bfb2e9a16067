#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

// Runs work items of one type on some threads, with a callable of that type.
template <typename Item>
class Dispatcher {
public:
    using Callable = std::function<void(Item&)>;

    Dispatcher(std::size_t threads, Callable callable) : callable_(std::move(callable))
    {
        for (std::size_t i = 0; i < threads; i++)
            threads_.emplace_back([this] { run(); });
    }

    ~Dispatcher() { finish(); }

    void push(Item item)
    {
        std::unique_lock<std::mutex> guard(lock_);
        items_.push(std::move(item));
        guard.unlock();
        ready_.notify_one();
    }

    // Waits for everything that was pushed.
    void finish()
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            closed_ = true;
        }
        ready_.notify_all();
        for (std::thread& thread : threads_)
            if (thread.joinable())
                thread.join();
    }

    std::size_t done() const { return done_; }

private:
    void run()
    {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            while (items_.empty() && !closed_)
                ready_.wait(guard);
            if (items_.empty())
                return;
            Item item = std::move(items_.front());
            items_.pop();
            guard.unlock();
            callable_(item);
            guard.lock();
            done_++;
        }
    }

    Callable callable_;
    std::mutex lock_;
    std::condition_variable ready_;
    std::queue<Item> items_;
    std::vector<std::thread> threads_;
    std::size_t done_ = 0;
    bool closed_ = false;
};
