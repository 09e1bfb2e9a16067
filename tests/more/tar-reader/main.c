/*
 * Backs a spool folder up and verifies the backup by reading it again. What is in the folder is
 * different every time.
 */
#include "tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 32
#define FILES 4

struct spool_file {
	const char *name;
	size_t size;
	unsigned mode;
};

/* What uploads there are; a run finds some of them in the folder. */
static const struct spool_file uploads[] = {
	{"notes.txt", 812, 0644},	{"invoice-17.pdf", 20480, 0600}, {"photo.jpg", 48211, 0644},
	{"readme", 300, 0644},		{"build.log", 64000, 0644},	 {"cat.gif", 9311, 0644},
	{"dump.sql", 65100, 0600},	{"main.c", 4096, 0644},		 {"run.sh", 120, 0755},
	{"song.mid", 33333, 0644},	{"table.csv", 15000, 0640},	 {"core.txt", 1, 0600},
	{"letter.doc", 27136, 0644},	{"icon.png", 2048, 0644},	 {"mail.mbox", 51200, 0600},
	{"stats.json", 7012, 0644},	{"lib.a", 60928, 0644},		 {"todo.md", 513, 0644},
};
#define UPLOADS (sizeof uploads / sizeof uploads[0])

/* A file's name and the digest of what is in it; open addressing. */
struct digest {
	char name[40];
	uint64_t hash;
	size_t size;
};

struct digests {
	struct digest slots[SLOTS];
	unsigned count, checked, different;
};

static uint64_t hash_bytes(const void *data, size_t size)
{
	const unsigned char *bytes = data;
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	return h;
}

static struct digest *slot_of(struct digests *d, const char *name)
{
	size_t at = hash_bytes(name, strlen(name)) % SLOTS;

	while (d->slots[at].name[0] && strcmp(d->slots[at].name, name) != 0)
		at = (at + 1) % SLOTS;
	return &d->slots[at];
}

static unsigned char *make_contents(const struct spool_file *f, unsigned seed)
{
	unsigned char *data = malloc(f->size);

	if (!data)
		abort();
	for (size_t i = 0; i < f->size; i++) {
		seed = seed * 1103515245u + 12345u;
		data[i] = (unsigned char)(' ' + (seed >> 16) % 90);
	}
	return data;
}

static void back_up(struct archive *a, struct digests *d, const struct spool_file *f)
{
	unsigned char *data = make_contents(f, (unsigned)f->size);
	struct digest *slot = slot_of(d, f->name);

	archive_add(a, f->name, data, f->size, f->mode);
	snprintf(slot->name, sizeof slot->name, "%s", f->name);
	slot->hash = hash_bytes(data, f->size);
	slot->size = f->size;
	d->count++;
	free(data);
}

static int verify_member(const struct member *m, void *context)
{
	struct digests *d = context;
	const struct digest *slot = slot_of(d, m->name);

	d->checked++;
	if (slot->size != m->size || slot->hash != hash_bytes(m->data, m->size))
		d->different++;
	return 0;
}

struct listing {
	struct member members[SLOTS];
	size_t count;
	size_t total;
};

static int list_member(const struct member *m, void *context)
{
	struct listing *l = context;

	if (l->count == SLOTS)
		return -1;
	l->members[l->count++] = *m;
	l->total += m->size;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* -rw-r--r-- and so on. */
static void mode_text(unsigned mode, char text[11])
{
	text[0] = '-';
	for (int i = 0; i < 9; i++)
		text[1 + i] = mode & 0400u >> i ? "rwx"[i % 3] : '-';
	text[10] = '\0';
}

static void print_sorted(struct listing *l)
{
	char mode[11], day[24];

	qsort(l->members, l->count, sizeof l->members[0], by_name);
	for (size_t i = 0; i < l->count; i++) {
		const struct member *m = &l->members[i];
		time_t mtime = m->mtime;
		struct tm tm;

		mode_text(m->mode, mode);
		strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&mtime, &tm));
		printf("%s %8u %s %s\n", mode, m->size, day, m->name);
	}
	printf("%zu members, %zu bytes\n", l->count, l->total);
}

static void print_listing(const struct archive *a, const struct digests *d)
{
	for (int i = 0; i < SLOTS; i++)
		if (d->slots[i].name[0])
			printf("%-16s %016lx\n", d->slots[i].name, (unsigned long)d->slots[i].hash);
	printf("%zu bytes, %u of %u checked, %u different\n", a->length, d->checked, d->count, d->different);
}

int main(void)
{
	static struct digests digests;
	struct archive archive = {0};
	struct timespec now;
	static struct listing listing;
	size_t first;

	clock_gettime(CLOCK_REALTIME, &now);
	first = ((size_t)now.tv_nsec / 1000 + (size_t)getpid() * 7) % UPLOADS;
	for (size_t i = 0; i < FILES; i++)
		back_up(&archive, &digests, &uploads[(first + i) % UPLOADS]);
	archive_finish(&archive);

	if (archive_each(&archive, verify_member, &digests) == 0) /* @verify */
		archive_each(&archive, list_member, &listing);
	print_sorted(&listing);
	print_listing(&archive, &digests);
	archive_free(&archive);
	return digests.different != 0;
}
