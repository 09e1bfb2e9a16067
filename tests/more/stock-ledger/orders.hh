#pragma once

#include "warehouse.hh"

#include <atomic>
#include <map>
#include <mutex>
#include <string_view>

struct Line {
    std::string article;
    long count;
};

struct Order {
    unsigned number = 0;
    std::string customer;
    std::vector<Line> lines;
};

// "customer: 3 pen, 1 ink"
Order parse_order(unsigned number, std::string_view text);

// What was sold, by article and by customer.
class SalesBook {
public:
    void enter(const Order& order, const Line& line, Outcome outcome, long cents);
    long sold(const std::string& article) const;
    void print() const;

private:
    mutable std::mutex lock_;
    std::map<std::string, long> sold_;
    std::map<std::string, long> spent_;
    std::map<Outcome, unsigned> outcomes_;
};

class OrderDesk {
public:
    OrderDesk(Warehouse& warehouse, SalesBook& book) : warehouse_(warehouse), book_(book) {}

    void process(Order& order);
    unsigned processed() const { return processed_.load(); }

private:
    Warehouse& warehouse_;
    SalesBook& book_;
    std::atomic<unsigned> processed_{0};
};
