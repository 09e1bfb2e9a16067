#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace ns {

struct Stats { int hits; long misses; };

struct Node { int value; Node *next; };

struct Base { long id; virtual ~Base() = default; };

class Queue : public Base {
public:
    __attribute__((noinline)) void push(Node *node);
    __attribute__((noinline)) int total(const Stats &stats, int extra) const;
    std::atomic<int> count{0};
    Stats stats{};
    std::unique_ptr<Node> first;
    std::vector<long> sizes;
    Node *last = nullptr;
    bool closed = false;
};

int opened;
thread_local int mine;

void Queue::push(Node *node) {
    node->next = last;                  // = this->last node->next
    last = node;                        // = this->last
    stats.hits++;                       // = this->stats.hits
    id = 4;                             // = this->id
    closed = true;                      // = this->closed
    opened += 2;                        // = ns::opened
}

int Queue::total(const Stats &seen, int extra) const {
    int sum = seen.hits + extra;        // = seen.hits
    sum += (int)this->stats.misses;     // = this->stats.misses
    sum += last->next->value;           // = this->last this->last->next this->last->next->value
    static int calls;
    calls++;                            // = calls
    return sum;                         // =
}

static inline __attribute__((always_inline)) void bump(Stats &target, int by) {
    target.hits += by;                  // = target.hits | local.hits queue.stats.hits other->stats.hits
    target.misses = by;                 // = target.misses | local.misses queue.stats.misses other->stats.misses
}

__attribute__((noinline)) void through(Queue &queue, Queue *other, int by) {
    bump(queue.stats, by);              // =
    bump(other->stats, 2);              // =
    queue.last->value = by;             // = queue.last queue.last->value
    queue.closed = other->closed;       // = other->closed queue.closed
}

__attribute__((noinline)) int with_locals(int by) {
    volatile int noise = by;            // =
    Stats local{by, noise};             // = local.hits local.misses
    bump(local, by);                    // =
    Stats *at = &local;                 // =
    asm volatile("" : "+r"(at) : : "memory"); // =
    return at->hits;                    // = at->hits
}

__attribute__((noinline)) long behind_operators(Queue &queue, std::vector<Stats> &all, int by) {
    queue.first->value = by;            // = queue.first->value | queue.first
    (*queue.first).value = by;          // = queue.first->value | queue.first
    return all[by].misses;              // = | all[…].misses all[by].misses
}

} // namespace ns

int main(int argc, char **) {
    auto *queue = new ns::Queue;
    queue->push(new ns::Node{argc, new ns::Node{}});
    queue->push(new ns::Node{argc, nullptr});
    ns::Queue other;
    ns::through(*queue, &other, argc);
    return queue->total(queue->stats, 3) + ns::with_locals(argc);
}
