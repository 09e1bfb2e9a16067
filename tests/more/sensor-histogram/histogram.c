/*
 * Reads readings of sensors ("name: v v v ...") and draws a histogram of each.
 * Every run takes up the next few channels that have news.
 */
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 8
#define MAX_READINGS 32
#define CHANNELS_PER_RUN 3

struct series {
	char name[24];
	long values[MAX_READINGS];
	size_t count;
};

struct histogram {
	long low, high;
	long width;
	unsigned buckets[BUCKETS];
	unsigned overflow;
};

struct reader {
	const char *text;
	unsigned column;
	jmp_buf bail;
	const char *complaint;
};

static const char *const channels[] = {
	"intake: 413 420 391 377 402 455 460 431 429 418",
	"outlet: 611 640 655 602 598 633 671 650 622",
	"bearing-1: 71 75 90 112 108 84 79 73 70",
	"bearing-2: 68 74 88 132 97 81 77 69",
	"coolant: 312 318 350 361 344 329 322",
	"supply-volts: 2304 2297 2311 2288 2279 2317",
	"vacuum: 18 21 19 18 22 20 19",
	"ambient: 195 199 214 236 241 228 207",
	"speed: 2990 3010 3004 2871 2950 3021",
	"torque: 140 151 188 x12 171 149",
	"pressure: 1013 1029 998 987 1004 1017",
	"flow: 55 63 81 94 72 60",
	"load: 12 88 71 45 33 91 64",
	"exhaust: 801 845 910 877 832",
	"vibration: 3 19 44 8 27 11 5",
};
#define CHANNELS (sizeof channels / sizeof channels[0])

static _Noreturn void bail(struct reader *r, const char *complaint)
{
	r->complaint = complaint;
	longjmp(r->bail, 1);
}

static void skip_blanks(struct reader *r)
{
	while (*r->text && isspace((unsigned char)*r->text)) {
		r->text++;
		r->column++;
	}
}

static void read_name(struct reader *r, struct series *s)
{
	const char *colon = strchr(r->text, ':');
	size_t length;

	if (!colon)
		bail(r, "no name");
	length = (size_t)(colon - r->text);
	if (length == 0 || length >= sizeof s->name)
		bail(r, "bad name");
	memcpy(s->name, r->text, length);
	s->name[length] = '\0';
	r->text = colon + 1;
	r->column += (unsigned)length + 1;
}

static long read_number(struct reader *r)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(r->text, &end, 10);
	if (end == r->text || errno)
		bail(r, "not a number");
	r->column += (unsigned)(end - r->text);
	r->text = end;
	return value;
}

/* Returns 0, or -1 for a line that is not a series. */
static int read_series(const char *line, struct series *s)
{
	struct reader r = {.text = line};

	if (setjmp(r.bail)) {
		fprintf(stderr, "%s at column %u\n", r.complaint, r.column);
		return -1;
	}
	memset(s, 0, sizeof *s);
	read_name(&r, s);
	for (skip_blanks(&r); *r.text; skip_blanks(&r)) {
		if (s->count == MAX_READINGS)
			bail(&r, "too many readings");
		s->values[s->count++] = read_number(&r);
	}
	return s->count ? 0 : -1;
}

static void find_range(struct histogram *h, const struct series *s)
{
	h->low = h->high = s->values[0];
	for (size_t i = 1; i < s->count; i++) {
		if (s->values[i] < h->low)
			h->low = s->values[i];
		if (s->values[i] > h->high)
			h->high = s->values[i];
	}
	h->width = (h->high - h->low) / BUCKETS; /* @width */
}

static void add_reading(struct histogram *h, long value)
{
	long bucket = (value - h->low) / h->width; /* @fail */

	if (bucket < BUCKETS)
		h->buckets[bucket]++;
	else
		h->overflow++;
}

static void draw(const struct histogram *h, const struct series *s)
{
	static const char bar[] = "################################";

	printf("%s\n", s->name);
	for (int i = 0; i < BUCKETS; i++)
		printf("%6ld %.*s\n", h->low + i * h->width, (int)h->buckets[i], bar);
	if (h->overflow)
		printf("  more %.*s\n", (int)h->overflow, bar);
}

static void summarise(const struct series *s)
{
	struct histogram *h = calloc(1, sizeof *h);

	if (!h)
		return;
	find_range(h, s); /* @range */
	for (size_t i = 0; i < s->count; i++)
		add_reading(h, s->values[i]); /* @add */
	draw(h, s);
	free(h);
}

/* Which channel has news first is not ours to say. */
static size_t first_channel(void)
{
	struct timespec now;
	uint64_t mix;

	clock_gettime(CLOCK_REALTIME, &now);
	mix = ((uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32) * 0xd6e8feb86659fd93u;
	return (size_t)(mix >> 33) % CHANNELS;
}

int main(void)
{
	size_t first = first_channel();
	unsigned skipped = 0;

	for (size_t i = 0; i < CHANNELS_PER_RUN; i++) {
		struct series s;

		if (read_series(channels[(first + i) % CHANNELS], &s) == 0)
			summarise(&s); /* @summarise */
		else
			skipped++;
	}
	printf("%u lines skipped\n", skipped);
	return 0;
}
