// A small static checker for C: it splits a file into tokens, links them into
// a list, and follows the scopes to count the variables of each function.
// A run checks the files that were touched last, not all of them.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

struct Scope {
    std::size_t opened_at;
    Scope* outer;
    int variables;
};

struct Source {
    const char* path;
    const char* text;
};

static const Source SOURCES[] = {
    {"add.c", "int add(int a, int b) { int sum = a + b; return sum; }"},
    {"max.c", "int max(int a, int b) { if (a > b) { return a; } return b; }"},
    {"loop.c", "void loop(int n) { for (int i = 0; i < n; i++) { int x = i; use(x); } }"},
    {"api.c", "extern \"C\" { int api(int v) { int out = v; return out; } } int after(void) { return 1; }"},
    {"swap.c", "void swap(int *a, int *b) { int t = *a; *a = *b; *b = t; }"},
    {"zero.c", "int zero(void) { return 0; }"},
    {"count.c", "extern int total; void count(void) { total++; }"},
    {"do.c", "void spin(int n) { do { int k = n; n = k - 1; } while (n > 0); }"},
    {"empty.c", ";"},
    {"abs.c", "int abs(int v) { if (v < 0) { int w = -v; return w; } return v; }"},
    {"two.c", "int one(void) { return 1; } int two(void) { int v = one(); return v + 1; }"},
    {"neg.c", "int neg(int v) { return -v; }"},
};

class Checker {
public:
    void check(const Source& source);
    void print_report() const;

private:
    void split(const char* text);
    void open_scope(std::size_t at);
    void close_scope();

    std::vector<std::string> tokens_;
    std::vector<std::unique_ptr<Scope>> scopes_;
    Scope* current_ = nullptr;
    int files_ = 0;
    int variables_ = 0;
};

void Checker::split(const char* text)
{
    tokens_.clear();
    while (*text != '\0') {
        const char* end = text + 1;
        if (std::isalnum(static_cast<unsigned char>(*text)))
            while (std::isalnum(static_cast<unsigned char>(*end)))
                end++;
        else if (*text == '"')
            while (*end != '\0' && *end++ != '"')
                ;
        if (!std::isspace(static_cast<unsigned char>(*text)))
            tokens_.emplace_back(text, end);
        text = end;
    }
}

// A linkage block holds declarations of the scope around it: it opens none.
void Checker::open_scope(std::size_t at)
{
    if (at > 0 && tokens_[at - 1].front() == '"') // @linkage
        return;
    scopes_.push_back(std::make_unique<Scope>(Scope{at, current_, 0}));
    current_ = scopes_.back().get();
}

void Checker::close_scope()
{
    Scope* closed = current_; // @scope-read
    if (closed == nullptr) // @scope-check
        throw std::logic_error("internal error: no scope to close"); // @fail
    current_ = closed->outer; // @scope-close
    variables_ += closed->variables;
}

void Checker::check(const Source& source)
{
    split(source.text);
    for (std::size_t i = 0; i < tokens_.size(); i++) {
        const std::string& token = tokens_[i];
        if (token == "{")
            open_scope(i); // @open
        else if (token == "}")
            close_scope(); // @close
        else if (token == "int" && current_ != nullptr)
            current_->variables++;
    }
    files_++;
}

void Checker::print_report() const
{
    std::printf("%d files, %zu scopes, %d variables\n", files_, scopes_.size(), variables_);
    if (current_ != nullptr)
        std::printf("the scope opened by token %zu is not closed\n", current_->opened_at);
}

static constexpr std::size_t CHECKED_PER_RUN = 2;
static Checker checker;

int main()
{
    std::vector<const Source*> touched;
    for (const Source& source : SOURCES)
        touched.push_back(&source);
    std::shuffle(touched.begin(), touched.end(), std::minstd_rand(std::random_device{}()));
    touched.resize(CHECKED_PER_RUN);

    for (const Source* source : touched)
        checker.check(*source);
    checker.print_report();
    return 0;
}
