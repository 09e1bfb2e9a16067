#include "viewport.hh"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

Viewport viewport;

static constexpr double COLUMN_WIDTH = 12.5;

void pause_micros(int least, int most)
{
    thread_local std::minstd_rand0 engine(std::random_device{}());
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<int>(least, most)(engine)));
}

// Labels on the way may want to be loaded first.
static void preload(double from, double to)
{
    if (std::fabs(to - from) > COLUMN_WIDTH)
        pause_micros(300, 1700);
}

void pan_to(double x, double world_right)
{
    double width = viewport.right - viewport.left;
    double from = viewport.left;
    x = std::clamp(x, 0.0, world_right - width);
    viewport.left = x; // @left-write
    preload(from, x);
    viewport.right = x + width; // @right-write
    viewport.moves++;
}

std::vector<Column> lay_out(const QuadTree& tree)
{
    double left = viewport.left; // @left-read
    double right = viewport.right; // @right-read
    double count = std::ceil((right - left) / COLUMN_WIDTH);
    assert(count >= 1); // @fail

    std::vector<Column> columns;
    columns.reserve(static_cast<std::size_t>(count));
    for (double at = left; at < right; at += COLUMN_WIDTH) {
        Column column{at, std::min(at + COLUMN_WIDTH, right), {}};
        tree.query({column.from, viewport.bottom, column.to, viewport.top}, column.places);
        std::sort(column.places.begin(), column.places.end(),
                  [](const Place* a, const Place* b) { return a->rank > b->rank; });
        columns.push_back(std::move(column));
    }
    return columns;
}

// One label a column: that of the place with the highest rank.
std::size_t draw_columns(const std::vector<Column>& columns, std::string& canvas)
{
    std::size_t labels = 0;
    canvas.clear();
    for (const Column& column : columns) {
        canvas += '|';
        if (column.places.empty()) {
            canvas.append(8, ' ');
            continue;
        }
        std::string label = column.places.front()->name.substr(0, 8);
        label.resize(8, ' ');
        canvas += label;
        labels++;
    }
    canvas += '|';
    return labels;
}
