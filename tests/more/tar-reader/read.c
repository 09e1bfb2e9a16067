/* Reads archives. */
#include "tar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sum of a header's bytes, with blanks for the sum itself. */
unsigned header_sum(const struct tar_header *h)
{
	const unsigned char *bytes = (const unsigned char *)h;
	size_t from = offsetof(struct tar_header, checksum), to = from + sizeof h->checksum;
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof *h; i++)
		sum += i >= from && i < to ? ' ' : bytes[i];
	return sum;
}

static _Noreturn void corrupt(const struct reader *r, const char *format, ...)
{
	va_list list;

	fprintf(stderr, "archive is corrupt at %zu, after %u members: ", r->at, r->members);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	abort(); /* @fail */
}

static unsigned long get_octal(const char *field, size_t width)
{
	unsigned long value = 0;

	for (size_t i = 0; i < width && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (unsigned long)(field[i] - '0');
	return value;
}

static int is_end(const struct tar_header *h)
{
	const char *bytes = (const char *)h;

	for (size_t i = 0; i < sizeof *h; i++)
		if (bytes[i])
			return 0;
	return 1;
}

static void decode_header(const struct tar_header *h, struct member *m)
{
	memcpy(m->name, h->name, sizeof h->name);
	m->name[sizeof h->name] = '\0';
	m->size = (uint32_t)get_octal(h->size, sizeof h->size);
	m->padded = (m->size + BLOCK - 1) / BLOCK * BLOCK; /* @padded-write */
	m->mode = get_octal(h->mode, sizeof h->mode) & 07777;
	m->mtime = (long)get_octal(h->mtime, sizeof h->mtime);
	m->is_link = h->type == '1' || h->type == '2';
}

/* Reads the next header; returns 0 at the end of the archive. */
static int next_member(struct reader *r, struct member *m)
{
	const struct tar_header *h = (const struct tar_header *)(r->archive->bytes + r->at);

	if (r->at + BLOCK > r->archive->length || is_end(h))
		return 0;
	if (get_octal(h->checksum, sizeof h->checksum) != header_sum(h)) /* @sum-check */
		corrupt(r, "sum of header is %u", header_sum(h)); /* @corrupt */
	decode_header(h, m); /* @decode */
	r->at += BLOCK;
	if (r->at + m->size > r->archive->length)
		corrupt(r, "%s is cut off", m->name);
	m->data = r->archive->bytes + r->at;
	r->members++;
	return 1;
}

static void skip_data(struct reader *r, const struct member *m)
{
	if (!m->is_link)
		r->at += m->padded; /* @padded-read */
}

int archive_each(const struct archive *a, member_fn fn, void *context)
{
	struct reader *r = calloc(1, sizeof *r);
	struct member *m = calloc(1, sizeof *m);
	int result = 0;

	if (!r || !m)
		abort();
	r->archive = a;
	while (result == 0 && next_member(r, m)) { /* @next */
		result = fn(m, context);
		skip_data(r, m); /* @skip */
	}
	free(m);
	free(r);
	return result;
}
