// Tills that share one connection to the shop's database.
#include "database.hh"

#include <cassert>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

struct Basket {
	std::string customer;
	std::vector<std::pair<std::string, double>> articles;
};

class Till {
public:
	Till(Connection &db, std::vector<Basket> line) : db_(db), line_(std::move(line)) {}

	void serve();
	double turnover() const { return turnover_; }
	unsigned receipts() const { return receipts_; }

private:
	RowId open_order(const Basket &basket);
	void print_receipt(RowId id, const Basket &basket);

	Connection &db_;
	std::vector<Basket> line_;
	double turnover_ = 0;
	unsigned receipts_ = 0;
};

/// A new order in the database; returns its row id.
RowId Till::open_order(const Basket &basket)
{
	db_.insert_order(basket.customer); // @insert
	db_.sync();
	return db_.last_insert_rowid(); // @ask
}

/// The receipt is made from what the database has, not from what the till thinks.
void Till::print_receipt(RowId id, const Basket &basket)
{
	Order order;
	bool found = db_.read_order(id, order); // @read-order

	assert(found && order.customer == basket.customer); // @fail
	turnover_ += order.total;
	receipts_++;
}

void Till::serve()
{
	for (const Basket &basket : line_) {
		disk_wait(500, 20000); // the customer unpacks
		RowId id = open_order(basket); // @open
		for (const auto &[article, price] : basket.articles)
			db_.insert_item(id, article, price);
		print_receipt(id, basket); // @receipt
	}
}

void run_till(Till &till)
{
	till.serve();
}

void print_turnover(const std::vector<Till> &tills)
{
	for (const Till &till : tills)
		std::printf("%u receipts, %.2f\n", till.receipts(), till.turnover());
}

int main()
{
	Connection db;
	std::vector<Till> tills;
	std::vector<std::thread> threads;

	tills.emplace_back(db, std::vector<Basket>{{"Ada", {{"lamp", 29.5}, {"bulb", 4.0}}},
						   {"Brian", {{"chair", 75.0}}},
						   {"Chris", {{"desk", 180.0}, {"mat", 12.0}}}});
	tills.emplace_back(db, std::vector<Basket>{{"Dora", {{"shelf", 60.0}}},
						   {"Edgar", {{"rug", 95.0}, {"vase", 15.0}}},
						   {"Fran", {{"clock", 22.0}}}});
	for (Till &till : tills)
		threads.emplace_back(run_till, std::ref(till));
	for (std::thread &thread : threads)
		thread.join();
	print_turnover(tills);
	db.print_tables();
	return 0;
}
