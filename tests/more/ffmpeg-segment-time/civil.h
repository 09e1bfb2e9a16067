#ifndef CIVIL_H
#define CIVIL_H

#include <stddef.h>
#include <stdint.h>

struct civil {
	int year, month, day;
	int hour, minute, second;
};

/* Splits seconds since 1970 into a date and a time of day. */
const struct civil *civil_time(int64_t seconds);

void civil_print(const struct civil *c, char *text, size_t room);

#endif
