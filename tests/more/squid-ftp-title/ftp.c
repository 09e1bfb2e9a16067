/* A proxy's gateway to FTP: a directory is answered with a page whose title is the address, escaped. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "ftp.h"

#define POOL_SIZE 2048
#define TITLE_SPARE 32

/* What belongs to a request is taken from its pool and given back with it. */
struct pool {
	size_t used;
	_Alignas(16) char memory[POOL_SIZE];
};

struct ftp_state {
	const struct request *request;
	struct pool *pool;
	char *title;
	struct reply *reply;
};

static const struct request requests[] = {
	{"anonymous", "ftp.a.example", "/pub"},
	{"jane.doe@b.example", "ftp.b.example", "/home/jane"},
	{"", "ftp.c.example", "/"},
	{"backup", "ftp.d.example", "/var/backups"},
	{"(#corp\\smith#)<adm@e,f>;&a=[\"1\"]{2}", "ftp.e.example", "/incoming"},
	{"mirror+daily", "ftp.f.example", "/mirror"},
	{"anonymous", "ftp.g.example", "/iso"},
	{"r&d", "ftp.h.example", "/lab"},
	{"guest", "ftp.i.example", "/readme"},
	{"press", "ftp.j.example", "/photos"},
};

static const char *const listing[] = {"latest.iso", "README.txt", "old/", "src.tar.gz"};

static void *pool_alloc(struct pool *pool, size_t size)
{
	void *p = pool->memory + pool->used;

	pool->used += (size + 15) & ~(size_t)15;
	memset(p, 0, size);
	return p;
}

static int is_unsafe(unsigned char c)
{
	return !isalnum(c) && !strchr("-_.~/", c);
}

/* Writes what stands for a character in an address; returns its length. */
static size_t escape(char *out, unsigned char c)
{
	if (!is_unsafe(c)) {
		out[0] = (char)c;
		return 1;
	}
	return (size_t)sprintf(out, "%%%02x", c);
}

static char *append_escaped(char *end, const char *text)
{
	char piece[4];

	for (; *text; text++) {
		size_t n = escape(piece, (unsigned char)*text);

		for (size_t i = 0; i < n; i++)
			*end++ = piece[i]; /* @append */
	}
	*end = '\0';
	return end;
}

static size_t title_room(const struct request *r)
{
	return TITLE_SPARE + strlen(r->user) + strlen(r->host) + strlen(r->path); /* @room */
}

static void build_title(struct ftp_state *ftp)
{
	const struct request *r = ftp->request;
	char *end = ftp->title + sprintf(ftp->title, "ftp://%s%s", r->host, r->path);

	if (*r->user)
		append_escaped(end + sprintf(end, " for "), r->user); /* @escape */
}

static struct ftp_state *ftp_start(struct pool *pool, const struct request *request)
{
	struct ftp_state *ftp = pool_alloc(pool, sizeof *ftp);

	ftp->request = request;
	ftp->pool = pool;
	ftp->title = pool_alloc(pool, title_room(request)); /* @alloc */
	ftp->reply = pool_alloc(pool, sizeof *ftp->reply);
	ftp->reply->icons = default_icons; /* @icons */
	return ftp;
}

static void list_directory(struct ftp_state *ftp)
{
	for (size_t i = 0; i < sizeof listing / sizeof listing[0]; i++)
		add_entry(ftp->reply, listing[i]);
}

static size_t serve(const struct request *request)
{
	struct pool *pool = malloc(sizeof *pool);
	struct ftp_state *ftp;
	size_t bytes;

	pool->used = 0;
	ftp = ftp_start(pool, request); /* @start */
	build_title(ftp);
	list_directory(ftp);
	bytes = ftp->reply->length + strlen(ftp->title);
	free(pool);
	return bytes;
}

static void print_access(const struct request *r, size_t bytes)
{
	printf("%zu ftp://%s%s%s\n", bytes, r->host, r->path, *r->user ? " (user)" : "");
}

int main(void)
{
	uint32_t choice[2];

	if (getrandom(choice, sizeof choice, 0) != sizeof choice)
		return 1;
	for (int i = 0; i < 2; i++) {
		const struct request *r = &requests[choice[i] % (sizeof requests / sizeof requests[0])];

		print_access(r, serve(r));
	}
	return 0;
}
