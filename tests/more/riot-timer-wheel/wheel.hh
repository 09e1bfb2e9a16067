#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// Microseconds since the program began.
std::uint64_t clock_now();

struct Timer {
    std::function<void()> callback;
    std::uint64_t delay = 0;
    Timer* next = nullptr;
};

// Timers in slots of a millisecond each, up to the longest timeout there is.
class Wheel {
public:
    static constexpr std::uint64_t SLOT = 1000;
    static constexpr std::size_t SLOTS = 64;

    // Calls back at a time given by the clock.
    void SetAbsolute(Timer* timer, std::uint64_t when);

    // Puts the timers that were set since into their slots.
    void Flush();

    // Runs what is due by now; returns how many timers that were.
    unsigned Turn(std::uint64_t now);

    void PrintLoad() const;

private:
    void Insert(Timer* timer);

    std::vector<Timer*> fresh_;
    Timer* slots_[SLOTS] = {};
    std::uint64_t turned_ = 0;
    unsigned inserted_ = 0;
};
