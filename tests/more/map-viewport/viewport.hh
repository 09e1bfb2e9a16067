#pragma once

#include "quadtree.hh"

// The part of the world that is on the screen.
struct Viewport {
    double left = 0, right = 0;
    double bottom = 0, top = 0;
    unsigned moves = 0;
};

struct Column {
    double from, to;
    std::vector<const Place*> places;
};

extern Viewport viewport;

void pause_micros(int least, int most);

// Moves the viewport so that `x` is at its left edge.
void pan_to(double x, double world_right);

// Divides the viewport into columns, and finds what is in each.
std::vector<Column> lay_out(const QuadTree& tree);
std::size_t draw_columns(const std::vector<Column>& columns, std::string& canvas);
