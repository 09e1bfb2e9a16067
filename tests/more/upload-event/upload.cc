// Uploads a file in parts while the main thread writes the receipt, and waits
// for the upload with an event of its own make.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

// Wakes one who waits. Telling the kernel is saved when nobody does.
class Event {
public:
    void signal()
    {
        std::lock_guard<std::mutex> guard(lock_);
        signals_++;
        if (waiters_ > 0) // @waiters-read
            wake_.notify_one();
    }

    void wait()
    {
        std::unique_lock<std::mutex> guard(lock_);
        waiters_++; // @waiters-add
        wake_.wait(guard); // @wait
        waiters_--;
    }

    unsigned signals() const { return signals_; }

private:
    std::mutex lock_;
    std::condition_variable wake_;
    unsigned waiters_ = 0;
    unsigned signals_ = 0;
};

struct Part {
    std::size_t offset, length;
    std::uint32_t checksum = 0;
};

struct Upload {
    std::string name;
    std::vector<std::uint8_t> bytes;
    std::vector<Part> parts;
    Event finished;
    unsigned retries = 0;
};

static int draw(int least, int most)
{
    static thread_local std::ranlux24_base engine{std::random_device{}()};
    return std::uniform_int_distribution<int>{least, most}(engine);
}

static void pass(int least_micros, int most_micros)
{
    std::this_thread::sleep_for(std::chrono::microseconds{draw(least_micros, most_micros)});
}

static std::uint32_t checksum(const std::vector<std::uint8_t>& bytes, const Part& part)
{
    std::uint32_t a = 1, b = 0;
    for (std::size_t i = part.offset; i < part.offset + part.length; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

// The peer acknowledges a part, or loses it.
static bool send_part(Upload& upload, Part& part)
{
    part.checksum = checksum(upload.bytes, part);
    pass(2000, 12000);
    return draw(0, 9) != 0;
}

static void send_all(Upload& upload)
{
    for (Part& part : upload.parts)
        while (!send_part(upload, part))
            upload.retries++;
    upload.finished.signal(); // @signal
}

static std::string write_receipt(const Upload& upload)
{
    std::string receipt = upload.name + ": " + std::to_string(upload.parts.size()) + " parts\n";
    for (const Part& part : upload.parts) {
        receipt += "  " + std::to_string(part.offset) + "+" + std::to_string(part.length) + "\n";
        pass(0, 12000);
    }
    return receipt;
}

static void print_upload(const Upload& upload, const std::string& receipt)
{
    std::uint32_t all = std::accumulate(upload.parts.begin(), upload.parts.end(), 0u,
                                        [](std::uint32_t sum, const Part& part) { return sum ^ part.checksum; });
    std::printf("%s%u retries, %u signals, %08x\n", receipt.c_str(), upload.retries, upload.finished.signals(), all);
}

int main()
{
    Upload upload;
    upload.name = "thesis.pdf";
    upload.bytes.resize(6000);
    for (std::size_t i = 0; i < upload.bytes.size(); i++)
        upload.bytes[i] = static_cast<std::uint8_t>(i * i >> 3);
    for (std::size_t at = 0; at < upload.bytes.size(); at += 1500)
        upload.parts.push_back({at, 1500});

    std::thread sender(send_all, std::ref(upload)); // @start
    std::string receipt = write_receipt(upload);
    upload.finished.wait(); // @await
    sender.join();
    print_upload(upload, receipt);
    return 0;
}
