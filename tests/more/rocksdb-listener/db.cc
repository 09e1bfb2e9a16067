// A store with one background thread: it writes full memtables to files and
// tells the listeners. A backup registers a listener for as long as it runs.

#include "listener.hh"

#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

using MemTable = std::map<std::string, std::string>;

static void storage_wait(int least, int most)
{
    thread_local std::minstd_rand random(std::random_device{}());
    std::uniform_int_distribution<int> time(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(time(random)));
}

class DB {
public:
    explicit DB(ListenerSet& listeners) : listeners_(listeners) {}
    void flush_all();
    void print_levels() const;

private:
    MemTable fill(int round) const;
    std::size_t write_table(const MemTable& table);
    void notify_completed(const std::vector<EventListener*>& listeners, const FlushInfo& info);
    void flush(const MemTable& table);

    ListenerSet& listeners_;
    std::uint64_t next_file_ = 7;
    std::size_t written_ = 0;
};

MemTable DB::fill(int round) const
{
    MemTable table;
    for (int i = 0; i < 6; i++)
        table["key" + std::to_string(round * 10 + i)] = std::string(i + 1, 'v');
    return table;
}

std::size_t DB::write_table(const MemTable& table)
{
    std::size_t bytes = 0;
    for (const auto& [key, value] : table)
        bytes += key.size() + value.size();
    storage_wait(300, 2500);
    return bytes;
}

void DB::notify_completed(const std::vector<EventListener*>& listeners, const FlushInfo& info)
{
    for (EventListener* listener : listeners)
        listener->on_flush_completed(info); // @fail
}

void DB::flush(const MemTable& table)
{
    FlushInfo info{next_file_++, 0};
    std::vector<EventListener*> listeners = listeners_.snapshot();
    for (EventListener* listener : listeners)
        listener->on_flush_begin(info);
    info.bytes = write_table(table);
    written_ += info.bytes;
    notify_completed(listeners, info); // @notify
}

void DB::flush_all()
{
    for (int round = 0; round < 3; round++) {
        MemTable table = fill(round);
        storage_wait(1000, 6000);
        flush(table);
    }
}

void DB::print_levels() const
{
    std::printf("%zu bytes in files up to %llu\n", written_, static_cast<unsigned long long>(next_file_ - 1));
}

static void background(DB* db)
{
    db->flush_all(); // @flush-all
}

static std::size_t backup(ListenerSet& listeners)
{
    auto tracker = std::make_unique<FileTracker>(16); // @tracker
    listeners.add(std::move(tracker));
    storage_wait(2000, 22000);
    listeners.remove("tracker"); // @remove
    return 1;
}

int main()
{
    ListenerSet listeners;
    listeners.add(std::make_unique<FlushCounter>());
    DB db(listeners);
    std::thread flusher(background, &db); // @start
    std::size_t backups = backup(listeners); // @backup
    flusher.join();
    db.print_levels();
    std::printf("%zu backups\n", backups);
    return 0;
}
