#ifndef TAR_H
#define TAR_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK 512

/* A header as it stands in the archive. */
struct tar_header {
	char name[100];
	char mode[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char owner[32];
	char padding[BLOCK - 173];
};

struct archive {
	unsigned char *bytes;
	size_t length, room;
};

/* A member as the reader sees it. */
struct member {
	char name[101];
	uint32_t size;
	uint16_t padded; /* with the rest of the last block */
	uint16_t mode : 12;
	uint16_t is_link : 1;
	long mtime;
	const unsigned char *data;
};

struct reader {
	const struct archive *archive;
	size_t at;
	unsigned members;
};

/* Called for each member; a nonzero result ends the reading. */
typedef int (*member_fn)(const struct member *m, void *context);

/* write.c */
void archive_add(struct archive *a, const char *name, const void *data, size_t size, unsigned mode);
void archive_finish(struct archive *a);
void archive_free(struct archive *a);

/* read.c */
int archive_each(const struct archive *a, member_fn fn, void *context);
unsigned header_sum(const struct tar_header *h);

#endif
