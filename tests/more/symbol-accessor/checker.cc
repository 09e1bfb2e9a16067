// A checker of source text: names get their variables, and checks look at what the names stand for.
#include "variable.hh"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

class Token {
public:
	explicit Token(std::string text) : text_(std::move(text)) {}
	const std::string &text() const { return text_; }
	const Variable *variable() const { return variable_; } // @accessor
	void variable(const Variable *variable) { variable_ = variable; }

private:
	std::string text_;
	const Variable *variable_ = nullptr;
};

class Source {
public:
	explicit Source(const std::string &code)
	{
		std::size_t begin = 0;

		while (begin < code.size()) {
			std::size_t end = code.find(' ', begin);
			if (end == std::string::npos)
				end = code.size();
			tokens_.emplace_back(code.substr(begin, end - begin));
			begin = end + 1;
		}
	}
	void declare(const std::string &name, unsigned elements)
	{
		variables_.push_back(std::make_unique<Variable>(name, elements));
		for (Token &token : tokens_)
			if (token.text() == name)
				token.variable(variables_.back().get());
	}
	const std::vector<Token> &tokens() const { return tokens_; }

private:
	std::vector<Token> tokens_;
	std::vector<std::unique_ptr<Variable>> variables_;
};

/// How many names stand for variables, in how many passes somebody likes to look.
static std::size_t count_uses(const Source &source, unsigned passes)
{
	std::size_t uses = 0;

	for (unsigned pass = 0; pass < passes; pass++)
		for (const Token &token : source.tokens())
			uses += token.variable() != nullptr;
	return uses;
}

/// The size of an array that was passed is the size of a pointer.
static unsigned check_sizeof(const Source &source)
{
	const std::vector<Token> &tokens = source.tokens();
	unsigned found = 0;

	for (std::size_t at = 0; at + 1 < tokens.size(); at++) {
		if (tokens[at].text() != "sizeof")
			continue;
		const Variable *variable = tokens[at + 1].variable(); // @ask
		if (variable->is_array()) // @check
			found++;
	}
	return found;
}

static void print_totals(std::size_t uses, unsigned found)
{
	std::printf("%zu uses, %u findings\n", uses, found);
}

static const char *const projects[] = {
	"return a + sizeof a", "b = sizeof b * a", "a = a + b", "if b return sizeof a", "while a b = b + a",
	"memset b sizeof b", "return a * b", "a = sizeof header", "b = a + sizeof a + sizeof b", "return b",
};

/// Each run looks at another one.
static std::size_t today()
{
	auto now = std::chrono::system_clock::now().time_since_epoch().count();
	return static_cast<std::uint64_t>(now) * 0x9e3779b97f4a7c15u >> 40;
}

int main()
{
	constexpr std::size_t length = sizeof projects / sizeof *projects;
	Source source(projects[today() % length]);

	source.declare("a", 1);
	source.declare("b", 16);
	std::size_t uses = count_uses(source, 2000);
	unsigned found = check_sizeof(source); // @run
	print_totals(uses, found);
}
