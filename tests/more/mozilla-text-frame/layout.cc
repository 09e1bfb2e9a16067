// A page is painted by one thread while another one lays it out anew, because
// the window has become narrower and the paragraph needs a second line.

#include "text_frame.hh"

#include <cstdio>
#include <thread>

static constexpr int PAINTS = 3;

static void reflow(TextFrame& frame)
{
    wait_microseconds(3000, 18000);
    frame.SetRange(27, 20); // @set-range
}

static void paint(const TextFrame& frame)
{
    unsigned widest = 0;
    for (int i = 0; i < PAINTS; i++) {
        wait_microseconds(500, 9000);
        unsigned width = frame.Paint(); // @paint
        if (width > widest)
            widest = width;
    }
    std::printf("widest line: %u\n", widest);
}

int main()
{
    TextFrame frame("The quick brown fox jumps over the lazy old dog");
    std::thread layouter(reflow, std::ref(frame));
    std::thread painter(paint, std::cref(frame));
    layouter.join();
    painter.join();
    frame.Dump();
    return 0;
}
