#include "text_frame.hh"

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

void wait_microseconds(int least, int most)
{
    thread_local std::minstd_rand engine(std::random_device{}());
    std::uniform_int_distribution<int> range(least, most);
    std::this_thread::sleep_for(std::chrono::microseconds(range(engine)));
}

static unsigned glyph_width(char c)
{
    return c == ' ' ? 3 : c == 'i' || c == 'l' ? 4 : 8;
}

TextFrame::TextFrame(std::string content) : content_(std::move(content)), offset_(0), width_(0)
{
    length_ = content_.size();
}

// Fonts are loaded when a glyph is first measured.
unsigned TextFrame::Measure(std::size_t offset, std::size_t length) const
{
    unsigned width = 0;
    for (std::size_t i = offset; i < offset + length; i++)
        width += glyph_width(content_[i]);
    wait_microseconds(300, 2000);
    return width;
}

void TextFrame::SetRange(std::size_t offset, std::size_t length)
{
    offset_ = offset; // @offset-write
    width_ = Measure(offset, length);
    length_ = length; // @length-write
}

unsigned TextFrame::PaintGlyphs(std::size_t begin, std::size_t end) const
{
    unsigned x = 0;
    for (std::size_t i = begin; i < end; i++)
        x += glyph_width(content_.at(i)); // @fail
    return x;
}

unsigned TextFrame::Paint() const
{
    std::size_t offset = offset_; // @offset-read
    std::size_t end = offset + length_; // @length-read
    return PaintGlyphs(offset, end); // @glyphs
}

void TextFrame::Dump() const
{
    std::printf("[%zu, %zu) of %zu characters, %u wide\n", offset_, offset_ + length_, content_.size(), width_);
}
