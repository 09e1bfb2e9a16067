#pragma once

#include <cstdint>
#include <deque>
#include <string>

struct BlockIndex {
    const BlockIndex* previous;
    int height;
    std::uint64_t hash;
    unsigned transactions;
};

/// The blocks from the first one to the tip; the index owns them and never
/// lets one go.
template <typename Block>
class Chain {
public:
    const Block* tip() const { return tip_; } // @tip-read
    const Block* append(std::uint64_t hash, unsigned transactions);
    void set_tip(const Block* block) { tip_ = block; } // @tip-set
    void detach() { tip_ = nullptr; } // @tip-clear
    std::size_t known() const { return index_.size(); }
    std::string describe() const;

private:
    std::deque<Block> index_;
    const Block* tip_ = nullptr;
};

template <typename Block>
const Block* Chain<Block>::append(std::uint64_t hash, unsigned transactions)
{
    int height = tip_ == nullptr ? 0 : tip_->height + 1;
    return &index_.emplace_back(Block{tip_, height, hash, transactions});
}

template <typename Block>
std::string Chain<Block>::describe() const
{
    if (tip_ == nullptr)
        return "no tip";
    return "height " + std::to_string(tip_->height) + " of " + std::to_string(index_.size()) + " known";
}
