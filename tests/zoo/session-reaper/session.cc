#include "session.hh"

#include <cstdio>

static constexpr std::size_t INBOX_SIZE = 4096;

Session::Session(unsigned long id) : id_(id), lines_(0), fill_(0), inbox_(new char[INBOX_SIZE]) {}

void Session::append(const std::string& line)
{
    if (fill_ + line.size() + 1 > INBOX_SIZE)
        fill_ = 0;

    char* out = inbox_ + fill_; // @inbox-read
    for (char c : line)
        *out++ = c; // @fail
    *out = '\n';

    fill_ += line.size() + 1;
    lines_++;
}

void Session::close()
{
    delete[] inbox_;
    inbox_ = nullptr; // @inbox-clear
    fill_ = 0;
}

// For a person in a debugger: `call session->dump()`.
void Session::dump() const
{
    std::printf("session %lu: %lu lines, %zu bytes pending: %.*s\n", id_, lines_, fill_,
                static_cast<int>(fill_), inbox_);
}
