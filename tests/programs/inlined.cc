// A thread that fails in functions which an optimiser puts into one another.
#include <cstddef>
#include <string>
#include <thread>

struct Job {
    int id;
    std::string *text;
};

Job first = {1, nullptr};
Job *jobs[2] = {&first, nullptr};

static std::size_t length_of(Job **queue)
{
    Job *job = queue[0];
    return job->text->size(); // @fail
}

int main(int count, char **)
{
    std::size_t total = 0;
    std::thread worker([&total, count] {
        for (int round = 0; round < count; round++)
            total += length_of(jobs);
    });
    worker.join();
    return static_cast<int>(total);
}
