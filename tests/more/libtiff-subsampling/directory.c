/* Reads an image's directory: every known tag has a function that takes its value. */
#include <stdio.h>
#include "tiff.h"

struct field {
	uint16_t tag;
	const char *name;
	int (*set)(struct directory *dir, uint32_t value);
};

static int set_width(struct directory *dir, uint32_t value)
{
	dir->width = value;
	return value > 0;
}

static int set_length(struct directory *dir, uint32_t value)
{
	dir->length = value;
	return value > 0;
}

static int set_photometric(struct directory *dir, uint32_t value)
{
	dir->photometric = (uint16_t)value;
	return value <= PHOTOMETRIC_YCBCR;
}

static int set_samples(struct directory *dir, uint32_t value)
{
	dir->samples = (uint16_t)value;
	return value >= 1 && value <= 4;
}

static int set_rows_per_strip(struct directory *dir, uint32_t value)
{
	dir->rows_per_strip = value;
	return value > 0;
}

static int set_planar(struct directory *dir, uint32_t value)
{
	dir->planar = value == 2;
	return value == 1 || value == 2;
}

/* Two short values: horizontal and vertical. */
static int set_subsampling(struct directory *dir, uint32_t value)
{
	dir->subsampling[0] = value & 0xffff; /* @horizontal */
	dir->subsampling[1] = value >> 16;
	return 1;
}

static const struct field fields[] = {
	{TAG_WIDTH, "ImageWidth", set_width},
	{TAG_LENGTH, "ImageLength", set_length},
	{TAG_PHOTOMETRIC, "PhotometricInterpretation", set_photometric},
	{TAG_SAMPLES, "SamplesPerPixel", set_samples},
	{TAG_ROWS_PER_STRIP, "RowsPerStrip", set_rows_per_strip},
	{TAG_PLANAR, "PlanarConfiguration", set_planar},
	{TAG_SUBSAMPLING, "YCbCrSubsampling", set_subsampling},
};

static void default_directory(struct directory *dir)
{
	*dir = (struct directory){.rows_per_strip = 8, .samples = 1, .photometric = PHOTOMETRIC_GREY,
	                          .subsampling = {2, 2}};
}

static const struct field *find_field(uint16_t tag)
{
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		if (fields[i].tag == tag)
			return &fields[i];
	return NULL;
}

int read_directory(struct directory *dir, const struct image *image)
{
	default_directory(dir);
	for (const struct entry *e = image->entries; e->tag; e++) {
		const struct field *field = find_field(e->tag);

		if (!field)
			fprintf(stderr, "%s: unknown tag %u\n", image->name, e->tag);
		else if (!field->set(dir, e->value)) { /* @set */
			fprintf(stderr, "%s: bad value of %s\n", image->name, field->name);
			return 0;
		}
	}
	return dir->width > 0 && dir->length > 0;
}
