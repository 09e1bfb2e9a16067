#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

enum class Outcome { Accepted, SoldOut, Unknown };

const char* name_of(Outcome outcome);
void linger(int least_micros, int most_micros);

// One kind of goods: how many there were, and how many are left to sell.
class Article {
public:
    Article(std::string name, long stock, long cents);

    Outcome reserve(long count);
    void restock(long count);

    const std::string& name() const { return name_; }
    long cents() const { return cents_; }
    long initial() const { return initial_; }
    long available() const { return available_; } // @available-get

private:
    std::string name_;
    long cents_;
    long initial_;
    long available_;
    mutable std::shared_mutex lock_;
};

// The journal of what a sale changed goes to another host.
class Journal {
public:
    void write(const std::string& article, long before, long after);
    std::size_t entries() const { return entries_; }
    unsigned digest() const { return digest_; }

private:
    std::shared_mutex lock_;
    std::size_t entries_ = 0;
    unsigned digest_ = 5381;
};

class Warehouse {
public:
    void stock(const std::string& name, long count, long cents);
    std::shared_ptr<Article> find(const std::string& name) const;
    std::vector<std::shared_ptr<Article>> articles() const;
    void print() const;

private:
    mutable std::shared_mutex lock_;
    std::map<std::string, std::shared_ptr<Article>> articles_;
};

extern Journal journal;
