// A log-structured store: writes go to a memtable; a full one becomes the
// immutable one, which a background thread writes to a table file.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>

static void disk_wait(int least, int most)
{
    thread_local std::mt19937 random(std::random_device{}());
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<>(least, most)(random)));
}

class MemTable {
public:
    void put(std::string key, std::string value)
    {
        usage_ += key.size() + value.size();
        entries_[std::move(key)] = std::move(value);
    }
    std::size_t usage() const { return usage_; }
    std::size_t block(std::size_t number) const;
    std::size_t blocks() const { return (entries_.size() + BLOCK - 1) / BLOCK; }

    static constexpr std::size_t BLOCK = 4;

private:
    std::map<std::string, std::string> entries_;
    std::size_t usage_ = 0;
};

/// The bytes of one block of entries.
std::size_t MemTable::block(std::size_t number) const
{
    std::size_t bytes = 0, index = 0;
    for (const auto& [key, value] : entries_) { // @fail
        if (index / BLOCK == number)
            bytes += key.size() + value.size() + 2;
        index++;
    }
    return bytes;
}

struct Statistics {
    std::size_t tables = 0, table_bytes = 0, writes = 0;
};

class DB {
public:
    DB() : mem_(std::make_unique<MemTable>()) {}
    void put(int number);
    bool switch_memtable();
    void close();
    void print_statistics() const;

private:
    void maybe_schedule();
    static void background_work(DB* db);
    void background_call();
    std::size_t write_level0();

    std::mutex mutex_;
    std::condition_variable work_done_;
    std::unique_ptr<MemTable> mem_, imm_;
    bool scheduled_ = false;
    std::thread background_;
    Statistics stats_;
};

void DB::put(int number)
{
    std::lock_guard lock(mutex_);
    std::string key = "user" + std::to_string(number * 37 % 100);
    mem_->put(key, "value of " + key);
    stats_.writes++;
}

bool DB::switch_memtable()
{
    std::lock_guard lock(mutex_);
    if (imm_ != nullptr || mem_->usage() == 0)
        return false;
    imm_ = std::exchange(mem_, std::make_unique<MemTable>()); // @switch
    maybe_schedule();
    return true;
}

void DB::maybe_schedule()
{
    if (scheduled_)
        return;
    scheduled_ = true;
    background_ = std::thread(background_work, this); // @start
}

/// Writes the immutable memtable block by block.
std::size_t DB::write_level0()
{
    std::size_t bytes = 0;
    std::size_t blocks = imm_->blocks();
    for (std::size_t i = 0; i < blocks; i++) {
        disk_wait(300, 5200);
        const MemTable* table = imm_.get(); // @imm-read
        bytes += table->block(i); // @block
    }
    return bytes;
}

void DB::background_call()
{
    std::size_t bytes = write_level0(); // @write
    std::lock_guard lock(mutex_);
    stats_.tables++;
    stats_.table_bytes += bytes;
    imm_.reset();
    scheduled_ = false;
    work_done_.notify_all();
}

void DB::background_work(DB* db)
{
    db->background_call(); // @call
}

/// A compaction is given some time to end; a disk is not that slow.
void DB::close()
{
    std::unique_lock lock(mutex_);
    work_done_.wait_for(lock, std::chrono::milliseconds(14), [this] { return !scheduled_; });
    mem_.reset();
    imm_.reset(); // @imm-clear
    lock.unlock();
    if (background_.joinable())
        background_.join();
}

void DB::print_statistics() const
{
    std::printf("%zu writes, %zu tables, %zu bytes%s\n", stats_.writes, stats_.tables, stats_.table_bytes,
                imm_ ? ", one being written" : "");
}

int main()
{
    DB db;
    for (int i = 0; i < 15; i++)
        db.put(i);
    db.switch_memtable(); // @fill
    for (int i = 0; i < 3; i++)
        db.put(100 + i);
    db.close(); // @close
    db.print_statistics();
    return 0;
}
