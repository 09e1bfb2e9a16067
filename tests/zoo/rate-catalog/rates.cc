// Values a portfolio of currencies. The exchange rates are read by a task of
// their own while the main thread reads the positions.

#include "catalog.hh"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <vector>

struct Rate {
    char code[8];
    double rate;
};

struct Position {
    std::size_t currency;
    double amount;
};

static const char* const RATE_FILE[] = {"EUR=1.0", "USD=1.0831", "GBP=0.8571", "JPY=161.22", "CHF=0.9714"};
static constexpr std::size_t CURRENCIES = sizeof RATE_FILE / sizeof RATE_FILE[0];
static Catalog<Rate> catalog;

static void wait_microseconds(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

static void parse_rate(const char* line, Rate& rate)
{
    const char* equals = std::strchr(line, '=');
    std::size_t length = static_cast<std::size_t>(equals - line);
    std::memcpy(rate.code, line, length);
    rate.code[length] = '\0';
    rate.rate = std::strtod(equals + 1, nullptr);
}

static std::size_t load_rates()
{
    Rate* rates = new Rate[CURRENCIES];
    for (std::size_t i = 0; i < CURRENCIES; i++) {
        wait_microseconds(0, 3000);
        parse_rate(RATE_FILE[i], rates[i]);
    }
    catalog.publish(rates, CURRENCIES);
    return CURRENCIES;
}

static std::vector<Position> read_positions()
{
    std::vector<Position> positions;
    wait_microseconds(4000, 50000);
    for (std::size_t i = 0; i < 12; i++)
        positions.push_back({(i * 3 + 1) % CURRENCIES, 100.0 * static_cast<double>(i + 1)});
    return positions;
}

static double value_of(const std::vector<Position>& positions)
{
    double total = 0;
    for (const Position& position : positions)
        total += catalog.convert(position.amount, position.currency); // @convert
    return total;
}

// Reading the positions takes longer than loading the rates, on most days:
// the future is asked only when everything has been used.
int main()
{
    std::future<std::size_t> loading = std::async(std::launch::async, load_rates); // @async
    std::vector<Position> positions = read_positions();
    double total = value_of(positions); // @value

    std::size_t loaded = loading.get();
    catalog.print();
    std::printf("%zu rates, portfolio %.2f EUR\n", loaded, total);
    catalog.clear();
    return 0;
}
