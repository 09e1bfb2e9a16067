// An exchange as libraries of templates make them: the types of its names are longer than its code. The book is read
// while another thread still fills it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <ratio>
#include <string>
#include <thread>
#include <vector>

namespace exchange {

template <class Unit, class Precision> struct Price {
    long units;
};

template <class Key, class Value, class Allocator> struct Ordered {
    Value *first = nullptr;
};

template <class Rows, class Clock, class Allocator> class Book {
  public:
    template <class Amount> Amount quote(Amount amount) const {
        auto *row = rows_.first; // @read
        return amount * row->units; // @fail
    }
    template <class Row> void fill(Row *row) {
        usleep(pause());
        rows_.first = row; // @fill
    }
    static unsigned pause() {
        auto now = Clock::now().time_since_epoch();
        return static_cast<unsigned>(std::chrono::duration_cast<std::chrono::microseconds>(now).count() % 700);
    }

  private:
    Rows rows_;
};

}  // namespace exchange

using Amount = exchange::Price<std::string, std::ratio<1, 10000>>;
using Key = std::pair<std::string, std::chrono::duration<long, std::ratio<1, 1000>>>;
using Rows = exchange::Ordered<Key, Amount, std::allocator<std::pair<const Key, std::vector<Amount>>>>;
using Ledger = exchange::Book<Rows, std::chrono::steady_clock, std::allocator<std::map<Key, std::vector<Amount>>>>;

Ledger ledger;
Amount euro{7};

int main() {
    std::thread filler([] { ledger.fill(&euro); });
    usleep(300 + Ledger::pause());
    std::printf("%ld\n", ledger.quote(41L));
    filler.join();
}
