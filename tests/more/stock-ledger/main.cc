// Sells from a warehouse with some threads, and balances the books in the evening.

#include "dispatcher.hh"
#include "orders.hh"

#include <cstdio>
#include <stdexcept>

static const char* const ORDERS[] = {
    "mia: 3 pen, 1 ink",  "noah: 2 paper",           "lea: 1 ink, 4 stamp",
    "ben: 5 pen",         "emma: 2 ribbon, 1 paper", "paul: 1 stamp",
};

static void fill(Warehouse& warehouse)
{
    warehouse.stock("pen", 40, 120);
    warehouse.stock("ink", 12, 890);
    warehouse.stock("paper", 90, 510);
    warehouse.stock("stamp", 4, 110);
    warehouse.stock("pen", 20, 120);
}

// What is left and what was sold must be what there was.
static void balance(const Warehouse& warehouse, const SalesBook& book)
{
    for (const auto& article : warehouse.articles()) {
        long expected = article->initial() - book.sold(article->name());
        long left = article->available(); // @left
        if (left != expected) // @differs
            throw std::logic_error("the books do not balance"); // @fail
    }
}

static void print_day(const Warehouse& warehouse, const SalesBook& book, const OrderDesk& desk)
{
    warehouse.print();
    book.print();
    std::printf("%u orders, %zu journal entries, digest %08x\n", desk.processed(), journal.entries(),
                journal.digest());
}

int main()
{
    Warehouse warehouse;
    SalesBook book;
    OrderDesk desk(warehouse, book);
    fill(warehouse);

    Dispatcher<Order> dispatcher(3, [&desk](Order& order) { desk.process(order); }); // @process
    unsigned number = 0;
    for (const char* text : ORDERS)
        dispatcher.push(parse_order(++number, text));
    dispatcher.finish();

    balance(warehouse, book); // @balance
    print_day(warehouse, book, desk);
    return 0;
}
