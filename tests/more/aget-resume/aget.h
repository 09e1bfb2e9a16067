#ifndef AGET_H
#define AGET_H

#include <pthread.h>
#include <stddef.h>

#define CONNECTIONS 2
#define CHUNK 48
#define SEGMENT (4 * CHUNK)

struct segment {
	size_t first, limit;
	size_t offset;
	unsigned checksum;
};

struct download {
	const char *url;
	size_t size;
	struct segment segments[CONNECTIONS];
	size_t written;
	pthread_mutex_t written_mutex;
	unsigned char *file;
};

struct resume_record {
	size_t offsets[CONNECTIONS];
	size_t written;
	unsigned version;
};

void pause_between(unsigned least, unsigned most);
void save_state(struct download *d, struct resume_record *record);
size_t load_state(const struct resume_record *record, const struct download *d);

#endif
