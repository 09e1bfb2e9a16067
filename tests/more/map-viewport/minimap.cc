#include "minimap.hh"

#include <algorithm>

Minimap::Minimap(double extent, std::size_t columns, std::size_t rows)
    : extent_(extent), columns_(columns), rows_(rows), cells_(columns * rows, '.')
{
}

std::size_t Minimap::column_of(double x) const
{
    double at = x / extent_ * static_cast<double>(columns_);
    return std::min(static_cast<std::size_t>(std::max(at, 0.0)), columns_ - 1);
}

std::size_t Minimap::row_of(double y) const
{
    double at = (extent_ - y) / extent_ * static_cast<double>(rows_);
    return std::min(static_cast<std::size_t>(std::max(at, 0.0)), rows_ - 1);
}

void Minimap::mark(std::size_t column, std::size_t row, char c)
{
    cells_[row * columns_ + column] = c;
}

// A digit says how many places there are in a cell.
void Minimap::plot(const QuadTree& tree)
{
    std::vector<const Place*> places;
    tree.query({0, 0, extent_, extent_}, places);
    for (const Place* place : places) {
        std::size_t column = column_of(place->x), row = row_of(place->y);
        char& cell = cells_[row * columns_ + column];
        if (cell == '.')
            cell = '1';
        else if (cell < '9')
            cell++;
    }
}

void Minimap::frame(double left, double right, double bottom, double top)
{
    std::size_t from = column_of(left), to = column_of(right);
    std::size_t upper = row_of(top), lower = row_of(bottom);
    for (std::size_t row = upper; row <= lower; row++) {
        mark(from, row, '[');
        mark(to, row, ']');
    }
}

std::string Minimap::text() const
{
    std::string lines;
    for (std::size_t row = 0; row < rows_; row++) {
        lines.append(cells_, row * columns_, columns_);
        lines += '\n';
    }
    return lines;
}
