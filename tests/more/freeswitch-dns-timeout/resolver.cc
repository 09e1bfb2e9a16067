#include "resolver.hh"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <random>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

static constexpr int LOOKUP_TIMEOUT_MS = 20;

void wait_microseconds(int least, int most)
{
    static std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

Resolver::Resolver()
{
    int request[2], answer[2];
    if (pipe(request) != 0 || pipe(answer) != 0)
        throw std::system_error(errno, std::generic_category(), "pipe");
    helper_ = fork();
    if (helper_ == 0) {
        close(request[1]);
        close(answer[0]);
        Serve(request[0], answer[1]);
        _exit(0);
    }
    close(request[0]);
    close(answer[1]);
    requests_ = request[1];
    answers_ = answer[0];
}

Resolver::~Resolver()
{
    close(requests_);
    close(answers_);
    waitpid(helper_, nullptr, 0);
}

// The helper: one line with addresses for each name, when the servers have answered.
void Resolver::Serve(int requests, int answers)
{
    char name[64];
    while (read(requests, name, sizeof name) > 0) {
        unsigned sum = 0;
        for (const char* c = name; *c != '\0'; c++)
            sum = sum * 33 + static_cast<unsigned char>(*c);
        wait_microseconds(300, 22500);
        char line[64];
        int length = std::snprintf(line, sizeof line, "10.%u.%u.1 10.%u.%u.2", sum % 200, sum / 200 % 200,
                                   sum % 200, sum / 200 % 200);
        if (write(answers, line, static_cast<std::size_t>(length) + 1) < 0)
            return;
    }
}

static Address* ParseAddresses(char* line)
{
    Address* first = nullptr;
    for (char* word = std::strtok(line, " "); word != nullptr; word = std::strtok(nullptr, " ")) {
        Address* address = new Address{};
        std::sscanf(word, "%hhu.%hhu.%hhu.%hhu", &address->bytes[0], &address->bytes[1], &address->bytes[2],
                    &address->bytes[3]);
        address->port = 80;
        address->next = first;
        first = address;
    }
    return first;
}

void Resolver::Receive(HostEntry* host)
{
    pollfd wanted = {answers_, POLLIN, 0};
    int ready = poll(&wanted, 1, LOOKUP_TIMEOUT_MS); // @poll
    if (ready < 0) { // @only-errors
        host->status = Status::Refused;
        return;
    }
    if (wanted.revents & POLLIN) { // @readable
        char line[64];
        if (read(answers_, line, sizeof line) > 0) {
            host->addresses = ParseAddresses(line);
            answered_++;
        }
    }
}

HostEntry* Resolver::Lookup(const std::string& name)
{
    HostEntry* host = new HostEntry;
    host->name = name;
    host->status = Status::Found;
    host->addresses = nullptr; // @no-addresses
    char request[64] = "";
    std::strncpy(request, name.c_str(), sizeof request - 1);
    asked_++;
    if (write(requests_, request, sizeof request) < 0)
        host->status = Status::Refused;
    else
        Receive(host); // @receive
    return host;
}

void Resolver::PrintCounts() const
{
    std::printf("%u names asked, %u answered\n", asked_, answered_);
}

void FreeHost(HostEntry* host)
{
    while (host->addresses != nullptr) {
        Address* next = host->addresses->next;
        delete host->addresses;
        host->addresses = next;
    }
    delete host;
}
