/* The codecs that come with the host. */
#include "host.h"

#include <string.h>

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Text: every byte with its bits turned, as some modems want it. */
static uint8_t turn(uint8_t b)
{
	b = (uint8_t)(b >> 4 | b << 4);
	b = (uint8_t)((b & 0xcc) >> 2 | (b & 0x33) << 2);
	return (uint8_t)((b & 0xaa) >> 1 | (b & 0x55) << 1);
}

static size_t text_turn(const uint8_t *body, size_t length, uint8_t *out, size_t room)
{
	length = min_size(length, room);
	for (size_t i = 0; i < length; i++)
		out[i] = turn(body[i]);
	return length;
}

/* Runs: pairs of a count and a byte. */
static size_t runs_decode(const uint8_t *body, size_t length, uint8_t *out, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i + 1 < length; i += 2) {
		size_t n = min_size(body[i], room - used);

		memset(out + used, body[i + 1], n);
		used += n;
	}
	return used;
}

static size_t runs_encode(const uint8_t *body, size_t length, uint8_t *out, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used + 2 <= room;) {
		uint8_t n = 1;

		while (i + n < length && body[i + n] == body[i] && n < 255)
			n++;
		out[used++] = n;
		out[used++] = body[i];
		i += n;
	}
	return used;
}

/* Delta: each byte is the difference from the one before. */
static size_t delta_decode(const uint8_t *body, size_t length, uint8_t *out, size_t room)
{
	uint8_t previous = 0;

	length = min_size(length, room);
	for (size_t i = 0; i < length; i++)
		out[i] = previous = (uint8_t)(previous + body[i]);
	return length;
}

static size_t delta_encode(const uint8_t *body, size_t length, uint8_t *out, size_t room)
{
	uint8_t previous = 0;

	length = min_size(length, room);
	for (size_t i = 0; i < length; i++) {
		out[i] = (uint8_t)(body[i] - previous);
		previous = body[i];
	}
	return length;
}

static void text_init(struct codec *slot)
{
	slot->name = "text";
	slot->encode = text_turn;
	slot->decode = text_turn;
}

static void runs_init(struct codec *slot)
{
	slot->name = "runs";
	slot->encode = runs_encode;
	slot->decode = runs_decode;
}

static void delta_init(struct codec *slot)
{
	slot->name = "delta";
	slot->encode = delta_encode;
	slot->decode = delta_decode; /* @decode-set */
}

const struct plugin builtin_plugins[KIND_COUNT] = {
	{"plugins/text.so", KIND_TEXT, text_init},
	{"plugins/runs.so", KIND_RUNS, runs_init},
	{"plugins/delta.so", KIND_DELTA, delta_init},
};
