#pragma once

#include "quadtree.hh"

// The whole world in a few lines of characters, with a frame where the screen is.
class Minimap {
public:
    Minimap(double extent, std::size_t columns, std::size_t rows);

    void plot(const QuadTree& tree);
    void frame(double left, double right, double bottom, double top);
    std::string text() const;

private:
    std::size_t column_of(double x) const;
    std::size_t row_of(double y) const;
    void mark(std::size_t column, std::size_t row, char c);

    double extent_;
    std::size_t columns_, rows_;
    std::string cells_;
};
