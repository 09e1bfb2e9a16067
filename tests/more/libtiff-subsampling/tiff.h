#ifndef TIFF_H
#define TIFF_H

#include <stddef.h>
#include <stdint.h>

enum {
	TAG_WIDTH = 256, TAG_LENGTH = 257, TAG_PHOTOMETRIC = 262, TAG_SAMPLES = 277,
	TAG_ROWS_PER_STRIP = 278, TAG_PLANAR = 284, TAG_SUBSAMPLING = 530,
};

enum {PHOTOMETRIC_GREY = 1, PHOTOMETRIC_RGB = 2, PHOTOMETRIC_YCBCR = 6};

struct entry {
	uint16_t tag;
	uint32_t value;
};

struct directory {
	uint32_t width, length, rows_per_strip;
	uint16_t photometric, samples;
	uint16_t subsampling[2];
	int planar;
};

struct image {
	const char *name;
	struct entry entries[8];
};

int read_directory(struct directory *dir, const struct image *image);
size_t strip_size(const struct directory *dir);

#endif
