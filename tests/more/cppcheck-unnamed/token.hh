// Tokens, and what the symbol database makes of them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Token {
	std::string text;
	unsigned line = 0;
	unsigned uses = 0;

	bool is_name() const;
};

using TokenList = std::vector<std::unique_ptr<Token>>;

TokenList tokenize(const std::string &code);

/// A variable as it is declared; the tokens belong to the list.
struct Variable {
	const Token *type = nullptr;
	const Token *name = nullptr;
	bool argument = false;
	bool constant = false;
};

struct Function {
	std::string name;
	std::vector<Variable> arguments;
	std::list<Variable> locals;
	std::size_t body_start = 0, body_end = 0;
};

class SymbolDatabase {
public:
	explicit SymbolDatabase(TokenList &tokens) : tokens_(tokens) { build(); }

	const std::map<std::string, Function> &functions() const { return functions_; }
	std::size_t variable_count() const;

private:
	void build();
	std::size_t parse_arguments(std::size_t at, Function &function) const;
	std::size_t parse_body(std::size_t at, Function &function) const;
	void count_uses(const Function &function);
	const std::string &text(std::size_t at) const;

	TokenList &tokens_;
	std::map<std::string, Function> functions_;
};
