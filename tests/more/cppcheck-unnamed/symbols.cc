#include "token.hh"

#include <cctype>
#include <set>

bool Token::is_name() const
{
	return std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_';
}

TokenList tokenize(const std::string &code)
{
	TokenList tokens;
	unsigned line = 1;

	for (std::size_t i = 0; i < code.size();) {
		std::size_t end = i;
		if (code[i] == '\n')
			line++;
		while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) || code[end] == '_'))
			end++;
		if (end == i && !std::isspace(static_cast<unsigned char>(code[i])))
			end = i + 1;
		if (end > i) {
			tokens.push_back(std::make_unique<Token>());
			tokens.back()->text = code.substr(i, end - i);
			tokens.back()->line = line;
		}
		i = end > i ? end : i + 1;
	}
	return tokens;
}

static bool is_type(const std::string &word)
{
	static const std::set<std::string> types{"int", "char", "long", "double", "bool", "void"};
	return types.count(word) != 0;
}

const std::string &SymbolDatabase::text(std::size_t at) const
{
	static const std::string end;
	return at < tokens_.size() ? tokens_[at]->text : end;
}

/// From the opening parenthesis to the closing one; returns what follows it.
std::size_t SymbolDatabase::parse_arguments(std::size_t at, Function &function) const
{
	Variable variable;

	for (at++; at < tokens_.size(); at++) {
		const Token *token = tokens_[at].get();
		if (token->text == "," || token->text == ")") {
			if (variable.type != nullptr && variable.type->text != "void")
				function.arguments.push_back(variable); // @argument
			variable = Variable(); // @unnamed
			if (token->text == ")")
				break;
		} else if (token->text == "const") {
			variable.constant = true;
		} else if (is_type(token->text)) {
			variable.type = token;
			variable.argument = true;
		} else if (token->is_name()) {
			variable.name = token;
		}
	}
	return at + 1;
}

/// From the opening brace to the one that closes it.
std::size_t SymbolDatabase::parse_body(std::size_t at, Function &function) const
{
	unsigned depth = 0;

	function.body_start = at;
	for (; at < tokens_.size(); at++) {
		if (text(at) == "{")
			depth++;
		else if (text(at) == "}" && --depth == 0)
			break;
		else if (is_type(text(at)) && at + 1 < tokens_.size() && tokens_[at + 1]->is_name())
			function.locals.push_back({tokens_[at].get(), tokens_[at + 1].get(), false, false});
	}
	function.body_end = at;
	return at + 1;
}

/// Counts, at the token of its declaration, how often a name occurs in the body.
void SymbolDatabase::count_uses(const Function &function)
{
	std::map<std::string, unsigned> seen;

	for (std::size_t i = function.body_start; i < function.body_end; i++)
		seen[text(i)]++;
	for (auto &token : tokens_)
		if (token->is_name())
			token->uses += seen.count(token->text) ? seen[token->text] : 0;
}

void SymbolDatabase::build()
{
	for (std::size_t at = 0; at + 2 < tokens_.size();) {
		if (!is_type(text(at)) || text(at + 2) != "(") {
			at++;
			continue;
		}
		Function function;
		function.name = text(at + 1);
		at = parse_arguments(at + 2, function); // @parse
		if (text(at) != "{") // a declaration; its arguments need no names
			continue;
		at = parse_body(at, function);
		count_uses(function);
		functions_[function.name] = function; // @function-copy
	}
}

std::size_t SymbolDatabase::variable_count() const
{
	std::size_t count = 0;
	for (const auto &[name, function] : functions_)
		count += function.arguments.size() + function.locals.size();
	return count;
}
