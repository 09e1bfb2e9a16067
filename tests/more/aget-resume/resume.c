/* What a download needs to go on after the program was ended. */
#include <assert.h>
#include "aget.h"

/* The state is checked before the old one is replaced by it. */
static void verify_state(const struct resume_record *record, const struct download *d)
{
	size_t sum = 0;

	for (unsigned i = 0; i < CONNECTIONS; i++)
		sum += record->offsets[i] - d->segments[i].first; /* @sum */
	assert(sum == record->written); /* @fail */
}

void save_state(struct download *d, struct resume_record *record)
{
	record->version = 2;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		record->offsets[i] = d->segments[i].offset; /* @offset-read */
	pthread_mutex_lock(&d->written_mutex);
	record->written = d->written; /* @written-read */
	pthread_mutex_unlock(&d->written_mutex);
	verify_state(record, d); /* @verify */
}

size_t load_state(const struct resume_record *record, const struct download *d)
{
	if (record->version != 2 || record->written > d->size)
		return 0;
	return record->written;
}
