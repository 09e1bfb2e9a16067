// A little in-memory database: tables of rows under a row id, and one connection to them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

using RowId = std::int64_t;

struct Order {
	std::string customer;
	int items = 0;
	double total = 0;
};

struct Item {
	RowId order = 0;
	std::string article;
	double price = 0;
};

template <class Row>
class Table {
public:
	RowId append(Row row)
	{
		RowId id = ++last_;
		rows_.emplace(id, std::move(row));
		return id;
	}

	Row *find(RowId id)
	{
		auto at = rows_.find(id);
		return at == rows_.end() ? nullptr : &at->second;
	}

	std::size_t size() const { return rows_.size(); }

private:
	std::map<RowId, Row> rows_;
	RowId last_ = 0;
};

/// Every call is a statement, and takes the connection's mutex for as long as it lasts.
class Connection {
public:
	void insert_order(const std::string &customer);
	void insert_item(RowId order, const std::string &article, double price);
	bool read_order(RowId id, Order &order);
	RowId last_insert_rowid();
	void sync();
	void print_tables();

private:
	std::mutex mutex_;
	Table<Order> orders_;
	Table<Item> items_;
	RowId last_rowid_ = 0;
	unsigned statements_ = 0;
};

void disk_wait(unsigned least, unsigned most);
