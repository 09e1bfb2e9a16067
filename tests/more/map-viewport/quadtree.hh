#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct Box {
    double left, bottom, right, top;

    bool contains(double x, double y) const { return x >= left && x < right && y >= bottom && y < top; }
    bool meets(const Box& other) const
    {
        return left < other.right && other.left < right && bottom < other.top && other.bottom < top;
    }
};

struct Place {
    std::string name;
    double x, y;
    int rank;
};

// Places on a plane. A node that holds too many is divided into four.
class QuadTree {
public:
    explicit QuadTree(const Box& bounds, int depth = 0);

    bool insert(const Place& place);
    void query(const Box& area, std::vector<const Place*>& found) const;
    std::size_t size() const;
    std::size_t depth() const;

private:
    static constexpr std::size_t CAPACITY = 4;
    static constexpr int DEEPEST = 12;

    void divide();
    bool insert_below(const Place& place);

    Box bounds_;
    int depth_;
    std::vector<Place> places_;
    std::unique_ptr<QuadTree> quarters_[4];
};
