#include <stdlib.h>

struct item { int key; struct item *next; };
struct pair { short low, high; };
struct log { int state; char *buf; struct item *items; unsigned flag : 1; unsigned rest : 31; };
struct job { long id; struct job *next; struct pair parts[3]; union { long number; struct job *owner; } with; };
struct queue { int head, tail; struct job *slots[8]; struct log *log; struct { int depth; } limits; };

int counter;
int table[16];
int grid[4][8];
struct job jobs[10];
struct log *the_log;
struct queue shared;
static struct pair both;

__attribute__((noinline)) int globals(int i, int j) {
    counter++;                          // = counter
    table[i] = 3;                       // = table[i] | table[…]
    grid[i][j] = 4;                     // = grid[i][j] | grid[…][…]
    jobs[i].id = i;                     // = jobs[i].id | jobs[…].id
    jobs[2].next = &jobs[i];            // = jobs[2].next
    jobs[i].parts[1].high = 1;          // = jobs[i].parts[1].high | jobs[…].parts[1].high
    both.low = 2;                       // = both.low
    shared.limits.depth = j;            // = shared.limits.depth
    return shared.tail;                 // = shared.tail
} // | shared.tail

__attribute__((noinline)) void members(struct queue *q, struct job *job) {
    q->head = 1;                        // = q->head
    q->slots[q->head] = job;            // = q->head q->slots[q->head] | q->slots[1]
    q->log->state = 2;                  // = q->log q->log->state
    q->log->items->next->key = 5;       // = q->log q->log->items q->log->items->next q->log->items->next->key
    q->limits.depth++;                  // = q->limits.depth
    job->with.number = 1;               // = job->with
    job->parts[2].low = 3;              // = job->parts[2].low
    the_log->buf[2] = 'x';              // = the_log the_log->buf the_log->buf[2]
    the_log->state = 7;                 // = the_log the_log->state
}

__attribute__((noinline)) void twice(struct queue **q, struct job **list, int *count) {
    (*q)->tail++;                       // = *q (*q)->tail
    (*q)->slots[3] = 0;                 // = *q (*q)->slots[3]
    list[1]->id = 4;                    // = list[1] list[1]->id
    *count += 2;                        // = *count
    count[4] = 1;                       // = count[4]
}

__attribute__((noinline)) long walk(struct item *first, long *values, int count) {
    long sum = 0;                       // =
    for (int i = 0; i < count; i++)     // =
        sum += values[i];               // = values[i] | values[…]
    for (struct item *at = first; at; at = at->next) // = at->next | first->next
        sum += at->key;                 // = at->key | first->key
    while (first->next) {               // = first->next
        first->key = 0;                 // = first->key
        first = first->next;            // = first->next
    }
    return sum;                         // =
}

__attribute__((noinline)) void changed(struct queue *q, struct job *other) {
    struct job *old = q->slots[0];      // = q->slots[0]
    q->slots[0] = other;                // = q->slots[0]
    old->id = 3;                        // = old->id
    q->slots[0]->id = 4;                // = q->slots[0] q->slots[0]->id | other->id
    q = q + 1;                          // =
    q->head = 2;                        // = q->head
}

__attribute__((noinline)) int local(int n) {
    struct pair pairs[4];
    struct queue own;
    volatile int slow = n;              // =
    pairs[n].high = 3;                  // = pairs[n].high | pairs[…].high
    own.head = slow;                    // = own.head
    own.slots[1] = jobs;                // = own.slots[1]
    members(&own, jobs);                // =
    return own.head + pairs[1].high;    // = own.head pairs[1].high
}

int main(int argc, char **argv) {
    struct queue *q = calloc(1, sizeof *q);
    (void)argv;
    globals(argc, argc);
    the_log = calloc(1, sizeof *the_log); // = the_log
    members(q, jobs);
    twice(&q, &q->slots[0], table);     // =
    long sum = walk(q->log->items, &jobs[0].id, argc); // = q->log q->log->items
    changed(q, jobs);
    return (int)sum + local(argc);
}
