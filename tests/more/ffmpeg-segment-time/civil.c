#include "civil.h"

#include <stdio.h>

static struct civil broken_down;

static int is_leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return days[month - 1] + (month == 2 && is_leap(year));
}

const struct civil *civil_time(int64_t seconds)
{
	int64_t days = seconds / 86400, rest = seconds % 86400;
	int year = 1970, month = 1;

	broken_down.hour = (int)(rest / 3600); /* @hour-write */
	for (; days >= 365 + is_leap(year); year++)
		days -= 365 + is_leap(year);
	for (; days >= month_days(year, month); month++)
		days -= month_days(year, month);
	broken_down.year = year;
	broken_down.month = month;
	broken_down.day = (int)days + 1;
	broken_down.minute = (int)(rest / 60 % 60);
	broken_down.second = (int)(rest % 60);
	return &broken_down;
}

void civil_print(const struct civil *c, char *text, size_t room)
{
	snprintf(text, room, "%04d-%02d-%02d %02d:%02d:%02d", c->year, c->month, c->day, c->hour, c->minute,
		 c->second);
}
