// Watches a machine: probes are sampled into windows, a report prints their
// averages, and every so often the windows begin anew.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

void rest(int least_micros, int most_micros)
{
    thread_local std::default_random_engine engine(std::random_device{}());
    std::uniform_int_distribution<int> micros(least_micros, most_micros);
    std::this_thread::sleep_for(std::chrono::microseconds(micros(engine)));
}

class Probe {
public:
    virtual ~Probe() = default;
    virtual long read() = 0;
    virtual const char* unit() const = 0;
};

// A load that goes up and down like the tide.
class TidalProbe : public Probe {
public:
    TidalProbe(double height, double period) : height_(height), period_(period) {}

    long read() override
    {
        double phase = static_cast<double>(tick_++) / period_;
        return std::lround(height_ * (1.5 + std::sin(phase)));
    }
    const char* unit() const override { return "permille"; }

private:
    double height_, period_;
    unsigned tick_ = 0;
};

class CountingProbe : public Probe {
public:
    explicit CountingProbe(long step) : step_(step) {}

    long read() override { return total_ += step_; }
    const char* unit() const override { return "packets"; }

private:
    long step_;
    long total_ = 0;
};

// What was sampled since the last reset. One thread adds, others look.
class Window {
public:
    Window(std::string name, std::unique_ptr<Probe> probe) : name_(std::move(name)), probe_(std::move(probe)) {}

    void sample()
    {
        long value = probe_->read();
        sum_.fetch_add(value, std::memory_order_relaxed);
        count_.fetch_add(1, std::memory_order_relaxed);
        if (value > peak_.load(std::memory_order_relaxed))
            peak_.store(value, std::memory_order_relaxed);
    }

    void reset()
    {
        sum_.store(0, std::memory_order_relaxed);
        peak_.store(0, std::memory_order_relaxed);
        count_.store(0, std::memory_order_relaxed); // @count-reset
    }

    long average() const;
    void print() const;

private:
    std::string name_;
    std::unique_ptr<Probe> probe_;
    std::atomic<long> sum_{0};
    std::atomic<long> peak_{0};
    std::atomic<long> count_{0};
};

// The name goes to the printer while the numbers are looked up.
void type_name(const std::string& name)
{
    std::fputs(name.c_str(), stdout);
    std::fflush(stdout);
    rest(200, 1500);
}

long Window::average() const
{
    if (count_.load(std::memory_order_relaxed) == 0) // @count-check
        return 0;
    type_name(name_);
    long total = sum_.load(std::memory_order_relaxed);
    long samples = count_.load(std::memory_order_relaxed); // @count-read
    return total / samples; // @fail
}

void Window::print() const
{
    std::printf("%s: %ld samples, peak %ld %s\n", name_.c_str(), count_.load(), peak_.load(), probe_->unit());
}

using Windows = std::vector<std::unique_ptr<Window>>;

std::atomic<bool> finished{false};

void sampler(Windows& windows)
{
    while (!finished.load()) {
        for (auto& window : windows)
            window->sample();
        rest(2500, 5000);
    }
}

void reporter(const Windows& windows)
{
    for (int i = 0; i < 3; i++) {
        rest(4000, 10000);
        for (const auto& window : windows) {
            long average = window->average(); // @average
            std::printf(" %ld\n", average);
        }
    }
    finished.store(true);
}

void rollover(Windows& windows)
{
    rest(5000, 60000);
    for (auto& window : windows)
        window->reset(); // @reset
}

void print_windows(const Windows& windows)
{
    for (const auto& window : windows)
        window->print();
}

} // namespace

int main()
{
    Windows windows;
    windows.push_back(std::make_unique<Window>("cpu", std::make_unique<TidalProbe>(200, 7)));
    windows.push_back(std::make_unique<Window>("disk", std::make_unique<TidalProbe>(90, 3)));
    windows.push_back(std::make_unique<Window>("net", std::make_unique<CountingProbe>(1200)));

    std::thread sampling(sampler, std::ref(windows));
    std::thread reporting(reporter, std::cref(windows));
    std::thread rolling(rollover, std::ref(windows));
    reporting.join();
    sampling.join();
    rolling.join();
    print_windows(windows);
    return 0;
}
