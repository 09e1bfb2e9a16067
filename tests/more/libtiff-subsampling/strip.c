/* How many bytes a strip of the image takes. */
#include "tiff.h"

static size_t ycbcr_size(const struct directory *dir, uint32_t rows)
{
	uint32_t horizontal = dir->subsampling[0]; /* @horizontal-read */
	uint32_t vertical = dir->subsampling[1];
	size_t across = (dir->width + horizontal - 1) / horizontal; /* @fail */
	size_t down = (rows + vertical - 1) / vertical;

	return across * down * (horizontal * vertical + 2);
}

size_t strip_size(const struct directory *dir)
{
	uint32_t rows = dir->rows_per_strip < dir->length ? dir->rows_per_strip : dir->length;

	if (dir->photometric == PHOTOMETRIC_YCBCR && !dir->planar) /* @photometric */
		return ycbcr_size(dir, rows); /* @ycbcr */
	return (size_t)dir->width * rows * (dir->planar ? 1 : dir->samples);
}
