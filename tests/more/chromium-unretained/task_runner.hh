#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

// Waits for a random time between two bounds, as the network makes one wait.
void wait_microseconds(int least, int most);

// A sequence of tasks that runs on a thread of its own.
class TaskRunner {
public:
    TaskRunner();
    ~TaskRunner();

    void PostTask(std::function<void()> task);

    // Runs what has been posted, then ends the thread.
    void Shutdown();

private:
    void Run();

    std::mutex lock_;
    std::condition_variable posted_;
    std::deque<std::function<void()>> tasks_;
    bool stopping_ = false;
    std::thread thread_;
};
