#pragma once

#include <cstddef>
#include <cstdio>

// Rows that are loaded once and read from then on. The loader publishes them
// when all are there.
template <typename Row>
class Catalog {
public:
    void publish(Row* rows, std::size_t count)
    {
        count_ = count;
        rows_ = rows; // @rows-write
    }

    double convert(double amount, std::size_t index) const
    {
        const Row* row = rows_ + index; // @rows-read
        return amount / row->rate; // @fail
    }

    void print() const
    {
        for (std::size_t i = 0; i < count_; i++)
            std::printf("%-3s %.4f\n", rows_[i].code, rows_[i].rate);
    }

    void clear()
    {
        delete[] rows_;
        rows_ = nullptr;
        count_ = 0;
    }

private:
    Row* rows_ = nullptr;
    std::size_t count_ = 0;
};
