// A script engine's property cache: lookups go to a table keyed by property
// name. The collector flushes the table, because entries point to shapes that
// it may free. `filled` says how many entries `table` has; the two belong together.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

struct Entry {
    unsigned long key;
    int slot;
    char* shape;
};

struct PropertyCache {
    Entry* table;
    unsigned long filled;
    unsigned long hits;
    unsigned long misses;
    unsigned long flushes;
};

static constexpr unsigned long TABLE_SIZE = 64;
static constexpr int PROPERTIES = 6;
static PropertyCache cache;

static void wait_microseconds(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

static unsigned long hash_name(const std::string& name)
{
    unsigned long hash = 14695981039346656037UL;
    for (unsigned char c : name)
        hash = (hash ^ c) * 1099511628211UL;
    return hash;
}

static std::string property_name(int i)
{
    return "element" + std::to_string(i % 5) + ".style";
}

static void fill_cache()
{
    Entry* table = static_cast<Entry*>(std::calloc(TABLE_SIZE, sizeof(Entry)));
    for (int i = 0; i < PROPERTIES; i++) {
        unsigned long key = hash_name(property_name(i));
        Entry* entry = &table[key % TABLE_SIZE];
        entry->key = key;
        entry->slot = i;
    }
    cache.table = table;
    cache.filled = PROPERTIES;
}

// Shapes go back to the heap one by one, pages of them to the system.
static void release_shapes(Entry* table)
{
    for (unsigned long i = 0; i < TABLE_SIZE; i++)
        std::free(table[i].shape);
    wait_microseconds(200, 1000);
    std::free(table);
}

static void flush_cache()
{
    Entry* old = cache.table;
    cache.table = nullptr; // @table-write
    release_shapes(old);
    cache.filled = 0; // @filled-write
    cache.flushes++;
}

static int lookup(unsigned long key)
{
    if (cache.filled == 0) // @filled-read
        return -1;
    Entry* entry = &cache.table[key % TABLE_SIZE]; // @table-read
    if (entry->key != key) // @fail
        return -1;
    return entry->slot;
}

static void collect()
{
    wait_microseconds(2000, 20000);
    flush_cache(); // @flush
}

static void run_script()
{
    for (int i = 0; i < PROPERTIES; i++) {
        unsigned long key = hash_name(property_name(i));
        wait_microseconds(0, 5000);
        if (lookup(key) >= 0) // @lookup
            cache.hits++;
        else
            cache.misses++;
    }
}

static void print_meter()
{
    std::printf("%lu hits, %lu misses, %lu flushes, %lu entries, table %s\n", cache.hits, cache.misses,
                cache.flushes, cache.filled, cache.table == nullptr ? "gone" : "there");
}

int main()
{
    fill_cache();
    std::thread collector(collect);
    std::thread script(run_script);
    script.join();
    collector.join();
    print_meter();
    return 0;
}
