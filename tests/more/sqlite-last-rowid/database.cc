#include "database.hh"

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

/// The disk takes from `least` to `most` microseconds.
void disk_wait(unsigned least, unsigned most)
{
	thread_local std::minstd_rand random{std::random_device{}()};
	std::uniform_int_distribution<unsigned> range(least, most);

	std::this_thread::sleep_for(std::chrono::microseconds(range(random)));
}

void Connection::insert_order(const std::string &customer)
{
	std::lock_guard<std::mutex> guard(mutex_);
	statements_++;
	last_rowid_ = orders_.append(Order{customer, 0, 0}); // @order-rowid
}

/// Items carry their order's id as a key of their own; they have no row id worth asking for.
void Connection::insert_item(RowId id, const std::string &article, double price)
{
	std::lock_guard<std::mutex> guard(mutex_);
	statements_++;
	items_.append(Item{id, article, price});
	if (Order *order = orders_.find(id)) {
		order->items++;
		order->total += price;
	}
}

bool Connection::read_order(RowId id, Order &order)
{
	std::lock_guard<std::mutex> guard(mutex_);
	statements_++;
	const Order *found = orders_.find(id);
	if (found == nullptr)
		return false;
	order = *found;
	return true;
}

RowId Connection::last_insert_rowid()
{
	std::lock_guard<std::mutex> guard(mutex_);
	return last_rowid_; // @last
}

/// Waits until the journal is on the disk.
void Connection::sync()
{
	disk_wait(100, 600);
}

void Connection::print_tables()
{
	std::printf("%zu orders, %zu items, %u statements, last row id %lld\n", orders_.size(), items_.size(),
		    statements_, static_cast<long long>(last_rowid_));
}
