#pragma once

#include <cstddef>
#include <string>

// One client's connection: what it sent so far, until the request is whole.
class Session {
public:
    explicit Session(unsigned long id);

    void append(const std::string& line);
    void close();
    void dump() const;

    std::size_t received() const { return fill_; }

private:
    unsigned long id_;
    unsigned long lines_;
    std::size_t fill_;
    char* inbox_;
};
