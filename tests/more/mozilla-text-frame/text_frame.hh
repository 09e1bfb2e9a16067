#pragma once

#include <cstddef>
#include <string>

// Waits for a random time between two bounds, as fonts and screens make one wait.
void wait_microseconds(int least, int most);

// The part of a paragraph that stands on one line of the page.
class TextFrame {
public:
    explicit TextFrame(std::string content);

    // The characters from `offset` on, `length` of them, are on this line now.
    void SetRange(std::size_t offset, std::size_t length);

    // Draws the line; returns its width.
    unsigned Paint() const;

    void Dump() const;

private:
    unsigned PaintGlyphs(std::size_t begin, std::size_t end) const;
    unsigned Measure(std::size_t offset, std::size_t length) const;

    std::string content_;
    std::size_t offset_;
    std::size_t length_;
    unsigned width_;
};
