/* Writes archives: a header of one block, then the data in whole blocks. */
#include "tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *reserve(struct archive *a, size_t more)
{
	unsigned char *place;

	if (a->length + more > a->room) {
		a->room = (a->length + more) * 3 / 2 + 4 * BLOCK;
		a->bytes = realloc(a->bytes, a->room);
		if (!a->bytes)
			abort();
	}
	place = a->bytes + a->length;
	memset(place, 0, more);
	a->length += more;
	return place;
}

static void put_octal(char *field, size_t width, unsigned long value)
{
	char text[24];

	snprintf(text, sizeof text, "%0*lo", (int)width - 1, value);
	memcpy(field, text, width);
}

void archive_add(struct archive *a, const char *name, const void *data, size_t size, unsigned mode)
{
	struct tar_header h;
	size_t length = strlen(name);

	memset(&h, 0, sizeof h);
	memcpy(h.name, name, length < sizeof h.name ? length : sizeof h.name);
	put_octal(h.mode, sizeof h.mode, mode);
	put_octal(h.size, sizeof h.size, size);
	put_octal(h.mtime, sizeof h.mtime, 1700000000ul);
	memcpy(h.owner, "nobody", 6);
	h.type = '0';
	put_octal(h.checksum, sizeof h.checksum, header_sum(&h));
	memcpy(reserve(a, BLOCK), &h, BLOCK);
	memcpy(reserve(a, (size + BLOCK - 1) / BLOCK * BLOCK), data, size);
}

/* Two empty blocks are the end. */
void archive_finish(struct archive *a)
{
	reserve(a, (size_t)2 * BLOCK);
}

void archive_free(struct archive *a)
{
	free(a->bytes);
	memset(a, 0, sizeof *a);
}
