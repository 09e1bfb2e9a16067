#pragma once

#include <string>
#include <utility>

/// What a declared name stands for.
class Variable {
public:
	Variable(std::string name, unsigned elements) : name_(std::move(name)), elements_(elements) {}
	const std::string &name() const { return name_; }
	bool is_array() const;

private:
	std::string name_;
	unsigned elements_;
};
