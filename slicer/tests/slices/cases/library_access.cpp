#include <atomic>
#include <cstdlib>
std::atomic<int> stage;
std::atomic<int> other;
__attribute__((noinline)) void begin(int value) {
    stage.store(value); // in
    other.store(value + 1); // out
}
__attribute__((noinline)) void end() {
    stage.exchange(0); // in
}
__attribute__((noinline)) int show(const int *table) {
    int now = stage.load(); // in
    return table[now]; // from
}
int main(int argc, char **argv) {
    int table[4] = {1, 2, 3, 4}; // maybe
    begin(atoi(argv[1])); // in
    end(); // maybe
    return show(table) + other.load(); // in
}
