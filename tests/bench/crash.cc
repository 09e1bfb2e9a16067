// Crashes in a worker thread, a few calls deep: a job whose owner another thread took away.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

extern "C" int fillers(int seed);

struct Owner {
    long quota;
    long used;
};

struct Job {
    Owner *owner;
    long weight;
    Job *next;
};

struct Queue {
    std::mutex lock;
    std::condition_variable ready;
    Job *head = nullptr;
    long rounds = 0;
    bool closed = false;
};

static Queue queue;
static long budget = 64;

static long charge(Job *job, long factor)
{
    long price = job->weight * factor;
    Owner *owner = job->owner;
    if (price > budget)
        price = budget;
    owner->used += price;
    return owner->quota - owner->used;
}

static long settle(Job *job)
{
    long factor = queue.rounds % 7 + 1;
    long left = charge(job, factor);
    if (left < 0)
        std::printf("over by %ld\n", -left);
    return left;
}

static Job *take()
{
    std::unique_lock<std::mutex> held(queue.lock);
    while (!queue.head && !queue.closed)
        queue.ready.wait(held);
    Job *job = queue.head;
    if (job)
        queue.head = job->next;
    queue.rounds++;
    return job;
}

static void worker(long limit)
{
    long done = 0;
    while (Job *job = take()) {
        if (settle(job) > limit)
            done++;
    }
    std::printf("%ld done\n", done);
}

static void put(Job *job)
{
    std::lock_guard<std::mutex> held(queue.lock);
    job->next = queue.head;
    queue.head = job;
    queue.ready.notify_one();
}

int main(int count, char **words)
{
    long jobs = count > 1 ? std::atol(words[1]) : 40;
    if (jobs < 0)
        return fillers(count);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(worker, 5L);
    Owner owner{1000, 0};
    for (long i = 0; i < jobs; i++) {
        Job *job = new Job{&owner, i, nullptr};
        if (i == jobs - 1)
            job->owner = nullptr;
        put(job);
    }
    for (std::thread &thread : threads)
        thread.join();
}
