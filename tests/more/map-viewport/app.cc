// A map: one thread follows the user's finger, one draws.

#include "minimap.hh"
#include "viewport.hh"

#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

static constexpr double WORLD = 1000;
static constexpr int FRAMES = 6;
static constexpr int GESTURES = 3;

struct Screen {
    std::string canvas;
    std::size_t labels = 0;
    unsigned frames = 0;
};

class Gazetteer {
public:
    explicit Gazetteer(double extent) : tree_(Box{0, 0, extent, extent}) {}

    void load(const char* const* lines, std::size_t count);
    const QuadTree& tree() const { return tree_; }
    void print_index() const;

private:
    QuadTree tree_;
    std::map<char, unsigned> initials_;
    unsigned rejected_ = 0;
};

// "name x y rank"
void Gazetteer::load(const char* const* lines, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++) {
        char name[32];
        Place place;
        if (std::sscanf(lines[i], "%31s %lf %lf %d", name, &place.x, &place.y, &place.rank) != 4) {
            rejected_++;
            continue;
        }
        place.name = name;
        if (tree_.insert(place))
            initials_[place.name[0]]++;
        else
            rejected_++;
    }
}

void Gazetteer::print_index() const
{
    for (const auto& [letter, count] : initials_)
        std::printf("%c %u\n", letter, count);
    std::printf("%zu places, %zu deep, %u rejected\n", tree_.size(), tree_.depth(), rejected_);
}

static const char* const PLACES[] = {
    "Aldmouth 14 220 3", "Brackley 61 240 5", "Caldon 77 255 2", "Dunmere 133 210 7", "Eastwick 188 230 4",
    "Farrow 240 245 1", "Glenholt 266 205 3", "Harlow 301 222 6", "Inverey 344 251 2", "Jarrow 392 233 5",
    "Kelby 410 214 3", "Lindale 455 240 4", "Marsh 503 228 8", "Norton 540 219 2", "Oakham 588 247 5",
    "Penrith 602 236 6", "Quorn 655 202 1", "Ripley 690 215 3", "Stowe 733 250 4", "Thirsk 771 226 5",
    "Ulver 803 238 2", "Varley 850 221 7", "Wells 888 212 3", "Yarm 931 244 4", "Zeal 972 230 1",
    "Nowhere 1400 20 9", "broken-line",
};

// Every frame is laid out anew: the viewport may have moved.
static void render(const Gazetteer& gazetteer, Screen& screen)
{
    for (int i = 0; i < FRAMES; i++) {
        pause_micros(500, 8000);
        std::vector<Column> columns = lay_out(gazetteer.tree()); // @lay-out
        screen.labels += draw_columns(columns, screen.canvas);
        screen.frames++;
    }
}

static void follow_finger()
{
    static const double targets[GESTURES] = {190, 40, 610};
    for (double target : targets) {
        pause_micros(2000, 20000);
        pan_to(target, WORLD); // @pan
    }
}

static void print_minimap(const Gazetteer& gazetteer)
{
    Minimap minimap(WORLD, 48, 10);
    minimap.plot(gazetteer.tree());
    minimap.frame(viewport.left, viewport.right, viewport.bottom, viewport.top);
    std::fputs(minimap.text().c_str(), stdout);
}

static void print_screen(const Screen& screen)
{
    std::printf("%s\n%u frames, %zu labels, %u moves, %g to %g\n", screen.canvas.c_str(), screen.frames,
                screen.labels, viewport.moves, viewport.left, viewport.right);
}

int main()
{
    Gazetteer gazetteer(WORLD);
    Screen screen;
    gazetteer.load(PLACES, std::size(PLACES));
    viewport.right = 100;
    viewport.bottom = 200;
    viewport.top = 260;

    std::thread renderer(render, std::cref(gazetteer), std::ref(screen));
    std::thread finger(follow_finger);
    renderer.join();
    finger.join();

    print_screen(screen);
    print_minimap(gazetteer);
    gazetteer.print_index();
    return 0;
}
