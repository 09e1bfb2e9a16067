#include "task_runner.hh"

#include <chrono>
#include <random>

void wait_microseconds(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

TaskRunner::TaskRunner()
{
    thread_ = std::thread(&TaskRunner::Run, this); // @create
}

TaskRunner::~TaskRunner()
{
    Shutdown();
}

void TaskRunner::PostTask(std::function<void()> task)
{
    std::lock_guard<std::mutex> guard(lock_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
}

void TaskRunner::Shutdown()
{
    {
        std::lock_guard<std::mutex> guard(lock_);
        stopping_ = true;
        posted_.notify_one();
    }
    if (thread_.joinable())
        thread_.join();
}

void TaskRunner::Run()
{
    std::unique_lock<std::mutex> guard(lock_);
    for (;;) {
        posted_.wait(guard, [this] { return stopping_ || !tasks_.empty(); });
        if (tasks_.empty())
            return;
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        guard.unlock();
        task(); // @run
        guard.lock();
    }
}
