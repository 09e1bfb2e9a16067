#include "quadtree.hh"

#include <algorithm>

QuadTree::QuadTree(const Box& bounds, int depth) : bounds_(bounds), depth_(depth)
{
    places_.reserve(CAPACITY);
}

bool QuadTree::insert(const Place& place)
{
    if (!bounds_.contains(place.x, place.y))
        return false;
    if (quarters_[0])
        return insert_below(place);
    if (places_.size() < CAPACITY || depth_ == DEEPEST) {
        places_.push_back(place);
        return true;
    }
    divide();
    return insert_below(place);
}

bool QuadTree::insert_below(const Place& place)
{
    for (auto& quarter : quarters_)
        if (quarter->insert(place))
            return true;
    return false;
}

void QuadTree::divide()
{
    double x = (bounds_.left + bounds_.right) / 2, y = (bounds_.bottom + bounds_.top) / 2;
    const Box parts[4] = {
        {bounds_.left, bounds_.bottom, x, y},
        {x, bounds_.bottom, bounds_.right, y},
        {bounds_.left, y, x, bounds_.top},
        {x, y, bounds_.right, bounds_.top},
    };
    for (int i = 0; i < 4; i++)
        quarters_[i] = std::make_unique<QuadTree>(parts[i], depth_ + 1);
    for (const Place& place : places_)
        insert_below(place);
    places_.clear();
}

void QuadTree::query(const Box& area, std::vector<const Place*>& found) const
{
    if (!bounds_.meets(area))
        return;
    for (const Place& place : places_)
        if (area.contains(place.x, place.y))
            found.push_back(&place);
    if (quarters_[0])
        for (const auto& quarter : quarters_)
            quarter->query(area, found);
}

std::size_t QuadTree::size() const
{
    std::size_t total = places_.size();
    if (quarters_[0])
        for (const auto& quarter : quarters_)
            total += quarter->size();
    return total;
}

std::size_t QuadTree::depth() const
{
    std::size_t deepest = 0;
    if (quarters_[0])
        for (const auto& quarter : quarters_)
            deepest = std::max(deepest, quarter->depth() + 1);
    return deepest;
}
