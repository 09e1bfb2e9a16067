// A search engine over a few letters: two threads search, one compacts.

#include "index.hh"

#include <cstdio>
#include <functional>
#include <thread>

static const char* const LETTERS[][2] = {
    {"to the landlord", "The roof leaks again and the rain comes into the kitchen."},
    {"to the bank", "I did not order the transfer to the account of the landlord."},
    {"to aunt Ada", "The garden is in bloom, the rain was good for it."},
    {"to the editor", "Your article about the garden show had the wrong date."},
    {"to the school", "My daughter cannot come on Friday, she has a cold."},
    {"to the landlord, again", "The kitchen is wet, the garden is wet, I will not pay the rent."},
};

struct Reader {
    std::vector<const char*> queries;
    std::size_t hits = 0;
    double best = 0;
};

static void search_all(Index& index, Reader& reader)
{
    for (const char* query : reader.queries) {
        wait_micros(0, 20000);
        std::vector<Hit> hits = index.search(query); // @search
        reader.hits += hits.size();
        if (!hits.empty() && hits.front().score > reader.best)
            reader.best = hits.front().score;
    }
}

static void keep_compact(Index& index)
{
    wait_micros(1000, 45000);
    index.remove(2);
    wait_micros(500, 6000);
    index.compact(); // @compact
}

static void print_readers(const std::vector<Reader>& readers)
{
    for (const Reader& reader : readers)
        std::printf("%zu queries, %zu hits, best %.2f\n", reader.queries.size(), reader.hits, reader.best);
}

int main()
{
    Index index;
    for (const auto& [title, text] : LETTERS)
        index.add(title, text);

    std::vector<Reader> readers(2);
    readers[0].queries = {"garden rain", "landlord", "kitchen"};
    readers[1].queries = {"wet garden", "school", "the rent"};

    std::vector<std::thread> threads;
    for (Reader& reader : readers)
        threads.emplace_back(search_all, std::ref(index), std::ref(reader));
    threads.emplace_back(keep_compact, std::ref(index));
    for (std::thread& thread : threads)
        thread.join();

    print_readers(readers);
    index.print(8);
    return 0;
}
