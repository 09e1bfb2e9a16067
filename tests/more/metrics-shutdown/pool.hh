#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

// A fixed number of threads that run what they are given, first come first
// served. Shutting down runs what is left and then joins.
class WorkerPool {
public:
    explicit WorkerPool(std::size_t threads)
    {
        for (std::size_t i = 0; i < threads; i++)
            threads_.emplace_back(&WorkerPool::work, this); // @spawn
    }

    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    ~WorkerPool() { shutdown(); }

    void post(std::function<void()> task)
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            tasks_.push_back(std::move(task));
        }
        wake_.notify_one();
    }

    void shutdown()
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (stopping_)
                return;
            stopping_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_)
            thread.join();
    }

private:
    void work();

    std::mutex lock_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> tasks_;
    std::vector<std::thread> threads_;
    bool stopping_ = false;
};
