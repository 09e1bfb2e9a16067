#include "warehouse.hh"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>

Journal journal;

const char* name_of(Outcome outcome)
{
    switch (outcome) {
    case Outcome::Accepted:
        return "accepted";
    case Outcome::SoldOut:
        return "sold out";
    case Outcome::Unknown:
        break;
    }
    return "unknown";
}

void linger(int least_micros, int most_micros)
{
    static thread_local std::knuth_b engine(std::random_device{}());
    std::uniform_int_distribution<int> micros(least_micros, most_micros);
    std::this_thread::sleep_for(std::chrono::microseconds(micros(engine)));
}

void Journal::write(const std::string& article, long before, long after)
{
    {
        std::unique_lock<std::shared_mutex> guard(lock_);
        entries_++;
        for (char c : article)
            digest_ = digest_ * 33 + static_cast<unsigned char>(c);
        digest_ ^= static_cast<unsigned>(before * 31 + after);
    }
    linger(100, 900);
}

Article::Article(std::string name, long stock, long cents)
    : name_(std::move(name)), cents_(cents), initial_(stock), available_(stock)
{
}

Outcome Article::reserve(long count)
{
    std::shared_lock<std::shared_mutex> guard(lock_);
    long before = available_; // @available-read
    if (before < count)
        return Outcome::SoldOut;
    journal.write(name_, before, before - count);
    available_ = before - count; // @available-write
    return Outcome::Accepted;
}

void Article::restock(long count)
{
    std::unique_lock<std::shared_mutex> guard(lock_);
    available_ += count;
    initial_ += count;
}

void Warehouse::stock(const std::string& name, long count, long cents)
{
    std::unique_lock<std::shared_mutex> guard(lock_);
    std::shared_ptr<Article>& article = articles_[name];
    if (article)
        article->restock(count);
    else
        article = std::make_shared<Article>(name, count, cents);
}

std::shared_ptr<Article> Warehouse::find(const std::string& name) const
{
    std::shared_lock<std::shared_mutex> guard(lock_);
    auto found = articles_.find(name);
    return found == articles_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Article>> Warehouse::articles() const
{
    std::shared_lock<std::shared_mutex> guard(lock_);
    std::vector<std::shared_ptr<Article>> all;
    for (const auto& [name, article] : articles_)
        all.push_back(article);
    return all;
}

void Warehouse::print() const
{
    for (const auto& article : articles())
        std::printf("%-8s %4ld of %4ld at %ld.%02ld\n", article->name().c_str(), article->available(),
                    article->initial(), article->cents() / 100, article->cents() % 100);
}
