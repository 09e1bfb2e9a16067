// A text editor's undo stack. Neighbouring insertions are merged into one
// command when the document is saved, so that undo works by words.

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

class Document {
public:
    void insert(std::size_t at, const std::string& text) { text_.insert(at, text); }
    std::string remove(std::size_t at, std::size_t count)
    {
        std::string removed = text_.substr(at, count);
        text_.erase(at, count);
        return removed;
    }
    std::size_t size() const { return text_.size(); }
    const std::string& text() const { return text_; }

private:
    std::string text_;
};

class Command {
public:
    virtual ~Command() = default;
    virtual void redo(Document& document) = 0;
    virtual void undo(Document& document) = 0;
    virtual bool merge(const Command&) { return false; }
};

class Insert : public Command {
public:
    Insert(std::size_t at, std::string text) : at_(at), text_(std::move(text)) {}
    void redo(Document& document) override { document.insert(at_, text_); }
    void undo(Document& document) override { document.remove(at_, text_.size()); }
    bool merge(const Command& next) override;

private:
    std::size_t at_;
    std::string text_;
};

bool Insert::merge(const Command& next)
{
    const auto* insert = dynamic_cast<const Insert*>(&next);
    if (insert == nullptr || insert->at_ != at_ + text_.size() || text_.back() == ' ')
        return false;
    text_ += insert->text_;
    return true;
}

class Delete : public Command {
public:
    Delete(std::size_t at, std::size_t count) : at_(at), count_(count) {}
    void redo(Document& document) override { removed_ = document.remove(at_, count_); }
    void undo(Document& document) override { document.insert(at_, removed_); }

private:
    std::size_t at_, count_;
    std::string removed_;
};

class UndoStack {
public:
    void push(std::unique_ptr<Command> command, Document& document);
    bool undo(Document& document);
    bool redo(Document& document);
    void compact();
    void print_history() const;

private:
    std::vector<std::unique_ptr<Command>> commands_;
    std::size_t index_ = 0;
    std::size_t merged_ = 0;
};

void UndoStack::push(std::unique_ptr<Command> command, Document& document)
{
    commands_.resize(index_);
    command->redo(document);
    commands_.push_back(std::move(command));
    index_ = commands_.size();
}

/// Merges the last insertions into one command.
void UndoStack::compact()
{
    while (index_ >= 2 && commands_[index_ - 2]->merge(*commands_[index_ - 1])) { // @merge
        commands_[--index_].reset(); // @empty
        merged_++;
    }
}

bool UndoStack::undo(Document& document)
{
    if (index_ == 0)
        return false;
    commands_[--index_]->undo(document);
    return true;
}

bool UndoStack::redo(Document& document)
{
    if (index_ == commands_.size()) // @can-redo
        return false;
    Command* command = commands_[index_].get(); // @take
    command->redo(document); // @fail
    index_++;
    return true;
}

void UndoStack::print_history() const
{
    std::printf("%zu of %zu commands done, %zu merged\n", index_, commands_.size(), merged_);
}

/// Somebody who writes: mostly words, now and then a correction.
class Writer {
public:
    void step(Document& document, UndoStack& stack);

private:
    int pick(int bound) { return std::uniform_int_distribution<>(0, bound - 1)(random_); }

    std::minstd_rand random_{std::random_device{}()};
};

void Writer::step(Document& document, UndoStack& stack)
{
    static const char* const pieces[] = {"the ", "qui", "ck ", "br", "own", " fox", "es"};
    int action = pick(12);
    if (action < 6 || document.size() < 3)
        stack.push(std::make_unique<Insert>(document.size(), pieces[pick(7)]), document);
    else if (action < 7)
        stack.push(std::make_unique<Delete>(document.size() - 2, 2), document);
    else if (action < 9)
        stack.undo(document);
    else
        stack.redo(document); // @redo
}

static void save(const Document& document, UndoStack& stack)
{
    stack.compact(); // @compact
    std::printf("saved %zu bytes\n", document.size());
}

int main()
{
    Document document;
    UndoStack stack;
    Writer writer;

    for (int page = 0; page < 3; page++) {
        for (int i = 0; i < 6; i++)
            writer.step(document, stack);
        save(document, stack);
    }
    for (int i = 0; i < 3; i++)
        writer.step(document, stack);
    std::printf("%s\n", document.text().c_str());
    stack.print_history();
    return 0;
}
