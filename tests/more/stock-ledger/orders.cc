#include "orders.hh"

#include <charconv>
#include <cstdio>
#include <stdexcept>

static std::string_view trim(std::string_view text)
{
    while (!text.empty() && text.front() == ' ')
        text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ')
        text.remove_suffix(1);
    return text;
}

static Line parse_line(std::string_view text)
{
    Line line;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), line.count);
    if (error != std::errc() || line.count < 1)
        throw std::invalid_argument("an order line begins with a count");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    line.article = std::string(trim(text));
    return line;
}

Order parse_order(unsigned number, std::string_view text)
{
    std::size_t colon = text.find(':');
    if (colon == std::string_view::npos)
        throw std::invalid_argument("an order begins with its customer");

    Order order;
    order.number = number;
    order.customer = std::string(trim(text.substr(0, colon)));
    text.remove_prefix(colon + 1);
    while (!text.empty()) {
        std::size_t comma = std::min(text.find(','), text.size());
        order.lines.push_back(parse_line(trim(text.substr(0, comma))));
        text.remove_prefix(comma < text.size() ? comma + 1 : comma);
    }
    return order;
}

void SalesBook::enter(const Order& order, const Line& line, Outcome outcome, long cents)
{
    std::lock_guard<std::mutex> guard(lock_);
    outcomes_[outcome]++;
    if (outcome != Outcome::Accepted)
        return;
    sold_[line.article] += line.count;
    spent_[order.customer] += line.count * cents;
}

long SalesBook::sold(const std::string& article) const
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = sold_.find(article);
    return found == sold_.end() ? 0 : found->second;
}

void SalesBook::print() const
{
    for (const auto& [outcome, count] : outcomes_)
        std::printf("%-9s %u lines\n", name_of(outcome), count);
    for (const auto& [customer, cents] : spent_)
        std::printf("%-9s %ld.%02ld\n", customer.c_str(), cents / 100, cents % 100);
}

void OrderDesk::process(Order& order)
{
    linger(500, 9000); // the customer's credit is asked for
    for (const Line& line : order.lines) {
        std::shared_ptr<Article> article = warehouse_.find(line.article);
        if (!article) {
            book_.enter(order, line, Outcome::Unknown, 0);
            continue;
        }
        Outcome outcome = article->reserve(line.count); // @reserve
        book_.enter(order, line, outcome, article->cents());
    }
    processed_.fetch_add(1);
}
