// A node that reads its sensors: each reading has to be sent before its
// deadline, which counts from the moment at which the reading was asked for.

#include "wheel.hh"

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

static constexpr std::uint64_t DEADLINE = 41000;
static constexpr int READINGS = 3;

struct Reading {
    int sensor = 0;
    int value = 0;
    bool late = false;
    Timer timer;
};

class Node {
public:
    void Sample(int sensor);
    void Rest();
    void PrintReadings() const;

private:
    Wheel wheel_;
    std::vector<std::unique_ptr<Reading>> readings_;
    unsigned fired_ = 0;
};

// The bus takes from 2 to 24 milliseconds for each half of a conversation.
static int read_register(int sensor)
{
    static std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> wait(2000, 24000);
    std::this_thread::sleep_for(std::chrono::microseconds(wait(engine)));
    return sensor * 10 + wait(engine) % 10;
}

void Node::Sample(int sensor)
{
    std::uint64_t deadline = clock_now() + DEADLINE; // @deadline
    auto reading = std::make_unique<Reading>();
    Reading* raw = reading.get();
    raw->sensor = sensor;
    raw->value = read_register(sensor);
    raw->value += read_register(sensor);
    raw->timer.callback = [raw] { raw->late = true; };
    wheel_.SetAbsolute(&raw->timer, deadline); // @set
    readings_.push_back(std::move(reading));
}

void Node::Rest()
{
    wheel_.Flush(); // @flush
    fired_ += wheel_.Turn(clock_now());
}

void Node::PrintReadings() const
{
    for (const auto& reading : readings_)
        std::printf("sensor %d: %d%s\n", reading->sensor, reading->value, reading->late ? ", late" : "");
    std::printf("%u deadlines over\n", fired_);
    wheel_.PrintLoad();
}

int main()
{
    Node node;
    for (int sensor = 0; sensor < READINGS; sensor++) {
        node.Sample(sensor); // @sample
        node.Rest();
    }
    node.PrintReadings();
    return 0;
}
