/*
 * Sorts incoming mail into folders. Mailboxes live in an arena that is thrown away as a
 * whole; a mailbox is made when the first mail for it comes.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ARENA_BLOCK 4096
#define BATCH 4

struct block {
	struct block *previous;
	size_t used;
	_Alignas(16) unsigned char bytes[ARENA_BLOCK];
};

struct arena {
	struct block *current;
	size_t blocks, total;
};

struct folder {
	const char *title;
	unsigned count;
	size_t bytes;
	unsigned unread : 12;
	unsigned shared : 1;
};

struct mailbox {
	char user[16];
	struct folder *folder;
	struct mailbox *next;
	unsigned received;
};

struct mail {
	const char *from, *to, *subject;
	size_t size;
};

struct store {
	struct arena arena;
	struct mailbox *boxes;
	struct folder folders[3];
	unsigned rejected;
};

/* What the last hours brought. A run sorts a few of them. */
static const struct mail incoming[] = {
	{"ivy@a.example", "root@here.example", "cron: backup done", 840},
	{"news@b.example", "carla@here.example", "[list] weekly digest", 15200},
	{"jo@c.example", "dan@here.example", "lunch?", 610},
	{"shop@d.example", "carla@here.example", "your order", 4300},
	{"noreply@e.example", "release-management-oncall@here.example", "build 1812 failed", 2210},
	{"ivy@a.example", "dan@here.example", "Re: lunch?", 700},
	{"x@f.example", "elena@here.example", "[list] call for papers", 9100},
	{"sam@g.example", "build-bot@here.example", "restart please", 530},
	{"ops@here.example", "root@here.example", "disk at 91%", 1210},
	{"kim@h.example", "elena@here.example", "photos", 88100},
	{"jo@c.example", "facilities@here.example", "the door again", 640},
	{"bank@i.example", "dan@here.example", "statement", 3100},
	{"lee@j.example", "carla@here.example", "minutes", 5400},
	{"news@b.example", "elena@here.example", "[list] weekly digest", 15200},
	{"sam@g.example", "postmaster", "no host part", 90},
	{"ivy@a.example", "root@here.example", "cron: backup done", 838},
	{"kim@h.example", "dan@here.example", "tickets", 1800},
	{"max@k.example", "build-bot@here.example", "status", 410},
	{"ann@l.example", "carla@here.example", "draft", 23000},
	{"noreply@e.example", "elena@here.example", "build 1813 passed", 2190},
};
#define INCOMING (sizeof incoming / sizeof incoming[0])

static void *arena_alloc(struct arena *a, size_t size)
{
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (size > ARENA_BLOCK)
		return NULL;
	if (!a->current || a->current->used + size > ARENA_BLOCK) {
		struct block *b = calloc(1, sizeof *b);

		if (!b)
			return NULL;
		b->previous = a->current;
		a->current = b;
		a->blocks++;
	}
	p = a->current->bytes + a->current->used;
	a->current->used += size;
	a->total += size;
	return p;
}

static void arena_release(struct arena *a)
{
	while (a->current) {
		struct block *b = a->current;

		a->current = b->previous;
		free(b);
	}
}

/* Mail of lists goes to one folder, that of machines to another. */
static struct folder *folder_for(struct store *s, const struct mail *m)
{
	if (strncmp(m->subject, "[list]", 6) == 0)
		return &s->folders[1];
	if (strstr(m->subject, "cron") || strstr(m->from, "noreply"))
		return &s->folders[2];
	return &s->folders[0];
}

static struct mailbox *find_box(struct store *s, const char *user, size_t length)
{
	for (struct mailbox *b = s->boxes; b; b = b->next)
		if (strncmp(b->user, user, length) == 0 && b->user[length] == '\0')
			return b;
	return NULL;
}

static struct mailbox *make_box(struct store *s, const char *user, size_t length)
{
	struct mailbox *box = arena_alloc(&s->arena, sizeof *box);

	if (!box)
		return NULL;
	box->folder = &s->folders[0]; /* @init */
	box->next = s->boxes;
	s->boxes = box;
	memcpy(box->user, user, length); /* @copy */
	return box;
}

static void deliver(struct mailbox *box, const struct mail *m, struct folder *wanted)
{
	struct folder *f = box->folder; /* @folder-read */

	if (wanted->shared)
		f = wanted;
	f->bytes += m->size; /* @fail */
	f->count++;
	f->unread++;
	box->received++;
}

/* Returns 0, or -1 for an address that is not one of ours. */
static int sort_mail(struct store *s, const struct mail *m)
{
	size_t length = strcspn(m->to, "@"); /* @length */
	struct mailbox *box;

	if (m->to[length] != '@' || length == 0)
		return -1;
	box = find_box(s, m->to, length);
	if (!box)
		box = make_box(s, m->to, length); /* @make */
	if (!box)
		return -1;
	deliver(box, m, folder_for(s, m)); /* @deliver */
	return 0;
}

static void print_store(const struct store *s)
{
	for (int i = 0; i < 3; i++)
		printf("%-9s %3u mails, %u unread, %zu bytes\n", s->folders[i].title, s->folders[i].count,
		       s->folders[i].unread, s->folders[i].bytes);
	for (const struct mailbox *b = s->boxes; b; b = b->next)
		printf("  %-16s %u, in %s\n", b->user, b->received, b->folder->title);
	printf("%u rejected, %zu bytes in %zu blocks\n", s->rejected, s->arena.total, s->arena.blocks);
}

/* The mail of this hour. */
static size_t first_mail(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	return ((uint64_t)now.tv_usec * 7919 + (uint64_t)getpid() * 31) % INCOMING;
}

int main(void)
{
	struct store store = {.folders = {{.title = "inbox"},
					  {.title = "lists", .shared = 1},
					  {.title = "machines"}}};
	size_t first = first_mail();

	for (size_t i = 0; i < BATCH; i++)
		if (sort_mail(&store, &incoming[(first + i) % INCOMING]) < 0) /* @sort */
			store.rejected++;
	print_store(&store);
	arena_release(&store.arena);
	return 0;
}
