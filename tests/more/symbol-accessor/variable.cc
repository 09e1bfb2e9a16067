#include "variable.hh"

bool Variable::is_array() const
{
	return elements_ > 1; // @fail
}
