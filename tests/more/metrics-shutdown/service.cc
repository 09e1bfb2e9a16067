// Resizes pictures on a pool of threads and counts how long each took. The
// counts go to a sink, which is there until the service closes.

#include "pool.hh"

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>

using Clock = std::chrono::steady_clock;

struct Sink {
    unsigned long by_magnitude[12] = {};
    unsigned long long total_micros = 0;
    std::mutex lock;
};

class Metrics {
public:
    Metrics() : sink_(new Sink) {} // @init
    ~Metrics() { close(); }

    void observe(Clock::duration taken);
    void close();
    void print() const;

private:
    Sink* sink_;
    unsigned long closed_with_ = 0;
};

void Metrics::observe(Clock::duration taken)
{
    auto micros = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
    std::size_t magnitude = 0;
    for (auto rest = micros; rest > 1 && magnitude < 11; rest /= 4)
        magnitude++;

    Sink* sink = sink_; // @sink-read
    sink->by_magnitude[magnitude]++; // @fail
    std::lock_guard<std::mutex> guard(sink->lock);
    sink->total_micros += static_cast<unsigned long long>(micros);
}

void Metrics::close()
{
    if (sink_ == nullptr)
        return;
    for (unsigned long n : sink_->by_magnitude)
        closed_with_ += n;
    delete sink_;
    sink_ = nullptr; // @sink-clear
}

void Metrics::print() const
{
    std::printf("%lu observations%s\n", closed_with_, sink_ ? ", still open" : "");
}

struct Picture {
    std::string name;
    unsigned width, height;
    std::vector<unsigned char> pixels;
};

static int between(int least, int most)
{
    thread_local std::mt19937 engine{std::random_device{}()};
    return std::uniform_int_distribution<int>(least, most)(engine);
}

class Service {
public:
    explicit Service(std::size_t threads) : pool_(std::make_unique<WorkerPool>(threads)) {}

    void submit(std::shared_ptr<Picture> picture)
    {
        pool_->post([this, picture] { resize(*picture); }); // @resize
    }

    // Closes what the service has. The counts first: they are to be printed.
    void close()
    {
        metrics_.close(); // @close-metrics
        pool_->shutdown();
    }

    void print_report() const
    {
        metrics_.print();
        for (const auto& [name, bytes] : results_)
            std::printf("%-14s %zu bytes\n", name.c_str(), bytes);
    }

private:
    void resize(Picture& picture);

    Metrics metrics_;
    std::mutex results_lock_;
    std::map<std::string, std::size_t> results_;
    std::unique_ptr<WorkerPool> pool_;
};

void Service::resize(Picture& picture)
{
    Clock::time_point start = Clock::now();
    std::vector<unsigned char> half;
    half.reserve(picture.pixels.size() / 4);
    for (unsigned y = 0; y + 1 < picture.height; y += 2)
        for (unsigned x = 0; x + 1 < picture.width; x += 2)
            half.push_back(picture.pixels[y * picture.width + x]);
    std::this_thread::sleep_for(std::chrono::microseconds(between(500, 7000))); // the upload
    {
        std::lock_guard<std::mutex> guard(results_lock_);
        results_[picture.name] = half.size();
    }
    metrics_.observe(Clock::now() - start); // @observe
}

static std::shared_ptr<Picture> make_picture(int number)
{
    auto picture = std::make_shared<Picture>();
    picture->name = "holiday-" + std::to_string(number);
    picture->width = 32 + 8 * static_cast<unsigned>(number);
    picture->height = 24;
    picture->pixels.assign(picture->width * picture->height, static_cast<unsigned char>(number));
    return picture;
}

int main()
{
    Service service(2);
    for (int i = 0; i < 6; i++)
        service.submit(make_picture(i));

    // The next batch would come here; most of the time this one is through by then.
    std::this_thread::sleep_for(std::chrono::microseconds(between(6000, 34000)));
    service.close(); // @close
    service.print_report();
    return 0;
}
