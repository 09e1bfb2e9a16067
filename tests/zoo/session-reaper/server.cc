// A line server. Each session is served by a thread of its own; a reaper
// closes the sessions that have been there for longer than their lifetime.

#include "session.hh"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

static constexpr int SESSIONS = 2;
static constexpr int REQUESTS = 3;

static std::mutex table_lock;
static Session* table[SESSIONS];
static unsigned long served[SESSIONS];
static unsigned long bytes_received;

static int random_between(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    return std::uniform_int_distribution<int>(least, most)(engine);
}

static void wait_microseconds(int least, int most)
{
    std::this_thread::sleep_for(std::chrono::microseconds(random_between(least, most)));
}

// The next request of a client, once the network has delivered it.
static std::string receive(int client)
{
    wait_microseconds(0, 6000);
    std::string line = "GET /item/" + std::to_string(client);
    for (int i = random_between(1, 16); i > 0; i--)
        line += "&f" + std::to_string(i);
    return line;
}

static Session* find_session(int slot)
{
    std::lock_guard<std::mutex> guard(table_lock);
    return table[slot];
}

static Session* take_session(int slot)
{
    std::lock_guard<std::mutex> guard(table_lock);
    Session* session = table[slot];
    table[slot] = nullptr;
    return session;
}

// The table is locked while the session is looked up, but nothing keeps the
// session alive from then on.
static void serve(int slot)
{
    Session* session = find_session(slot); // @find
    if (session == nullptr)
        return;
    for (int i = 0; i < REQUESTS; i++) {
        std::string line = receive(slot);
        session->append(line); // @append
        served[slot]++;
    }
}

static void reap()
{
    wait_microseconds(6000, 60000);
    for (int slot = 0; slot < SESSIONS; slot++) {
        Session* session = take_session(slot); // @take
        bytes_received += session->received();
        session->close(); // @close
        delete session;
    }
}

static void print_statistics()
{
    for (int slot = 0; slot < SESSIONS; slot++)
        std::printf("session %d: %lu requests\n", slot, served[slot]);
    std::printf("%lu bytes pending at close\n", bytes_received);
}

int main()
{
    for (int slot = 0; slot < SESSIONS; slot++)
        table[slot] = new Session(100 + slot);

    std::thread reaper(reap);
    std::vector<std::thread> workers;
    for (int slot = 0; slot < SESSIONS; slot++)
        workers.emplace_back(serve, slot);

    for (std::thread& worker : workers)
        worker.join();
    reaper.join();
    print_statistics();
    return 0;
}
