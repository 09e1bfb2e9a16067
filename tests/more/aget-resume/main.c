/* A downloader with several connections; it saves what it needs to resume when it is told to pause. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "aget.h"

struct job {
	struct download *d;
	struct segment *segment;
};

void pause_between(unsigned least, unsigned most)
{
	unsigned r;
	struct timespec t = {0, 0};

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		r = 0;
	t.tv_nsec = (long)(least + r % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

/* The server answers with what the range asks for, in pieces. */
static size_t receive(const struct segment *s, unsigned char *chunk)
{
	size_t left = s->limit - s->offset;
	size_t n = left < CHUNK ? left : CHUNK;

	pause_between(300, 7000);
	for (size_t i = 0; i < n; i++)
		chunk[i] = (unsigned char)((s->offset + i) * 31 >> 3);
	return n;
}

static void write_file(struct download *d, size_t at, const unsigned char *chunk, size_t n)
{
	memcpy(d->file + at, chunk, n);
	pause_between(150, 900);
}

static void get_segment(struct download *d, struct segment *s)
{
	unsigned char chunk[CHUNK];

	while (s->offset < s->limit) {
		size_t at = s->offset;
		size_t n = receive(s, chunk);

		for (size_t i = 0; i < n; i++)
			s->checksum = s->checksum * 33 + chunk[i];
		s->offset = at + n; /* @offset-write */
		write_file(d, at, chunk, n);
		pthread_mutex_lock(&d->written_mutex);
		d->written += n; /* @written-write */
		pthread_mutex_unlock(&d->written_mutex);
	}
}

static void *http_get(void *arg)
{
	struct job *job = arg; /* @job */

	get_segment(job->d, job->segment); /* @get */
	return NULL;
}

static void print_progress(const struct download *d)
{
	printf("%s: %zu of %zu bytes\n", d->url, d->written, d->size);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		printf("  %zu-%zu at %zu, checksum %08x\n", d->segments[i].first, d->segments[i].limit,
		       d->segments[i].offset, d->segments[i].checksum);
}

static struct download *open_download(const char *url, size_t size)
{
	struct download *d = calloc(1, sizeof *d);

	d->url = url;
	d->size = size;
	d->file = malloc(size);
	pthread_mutex_init(&d->written_mutex, NULL);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		d->segments[i].first = i * SEGMENT;
		d->segments[i].offset = i * SEGMENT;
		d->segments[i].limit = (i + 1) * SEGMENT;
	}
	return d;
}

int main(void)
{
	struct download *d = open_download("http://mirror.example/disk.img", CONNECTIONS * SEGMENT);
	struct resume_record record;
	struct job jobs[CONNECTIONS];
	pthread_t threads[CONNECTIONS];

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		jobs[i] = (struct job){d, &d->segments[i]};
		pthread_create(&threads[i], NULL, http_get, &jobs[i]); /* @create */
	}
	pause_between(2000, 26000); /* until the user interrupts */
	save_state(d, &record); /* @save */
	for (unsigned i = 0; i < CONNECTIONS; i++)
		pthread_join(threads[i], NULL);
	printf("could resume at %zu\n", load_state(&record, d));
	print_progress(d);
	free(d->file);
	free(d);
	return 0;
}
