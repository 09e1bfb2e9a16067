#include "wheel.hh"

#include <chrono>
#include <cstdio>

std::uint64_t clock_now()
{
    static const auto began = std::chrono::steady_clock::now();
    auto since = std::chrono::steady_clock::now() - began;
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

void Wheel::SetAbsolute(Timer* timer, std::uint64_t when)
{
    std::uint64_t now = clock_now(); // @now
    timer->delay = when - now; // @delay-write
    fresh_.push_back(timer);
}

void Wheel::Insert(Timer* timer)
{
    std::uint64_t slots_ahead = timer->delay / SLOT; // @delay-read
    std::size_t slot = turned_ % SLOTS;
    if (slots_ahead < SLOTS - slot)
        slot += slots_ahead;
    else
        slot = slots_ahead - (SLOTS - slot); // @slot
    timer->next = slots_[slot]; // @fail
    slots_[slot] = timer;
    inserted_++;
}

void Wheel::Flush()
{
    for (Timer* timer : fresh_)
        Insert(timer); // @insert
    fresh_.clear();
}

unsigned Wheel::Turn(std::uint64_t now)
{
    unsigned fired = 0;
    for (; turned_ * SLOT < now; turned_++) {
        Timer* due = slots_[turned_ % SLOTS];
        slots_[turned_ % SLOTS] = nullptr;
        while (due != nullptr) {
            Timer* next = due->next;
            due->callback();
            due = next;
            fired++;
        }
    }
    return fired;
}

void Wheel::PrintLoad() const
{
    unsigned waiting = 0;
    for (const Timer* slot : slots_)
        for (const Timer* timer = slot; timer != nullptr; timer = timer->next)
            waiting += timer->delay > 0;
    std::printf("%u timers set, %u waiting\n", inserted_, waiting);
}
