/*
 * Reads settings files: [sections], key = value, and lines that end in a backslash go on. Errors
 * leave the parser with longjmp; what it had in hand then is freed in one place.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 16
#define FILES_PER_RUN 2

struct setting {
	struct setting *next;
	char *key;
	char *value;
	unsigned line;
};

struct settings {
	struct setting *buckets[BUCKETS];
	size_t count, replaced;
};

struct parser {
	const char *at;
	unsigned line;
	char section[32];
	char *key;
	char *value; /* in hand: not yet in the table */
	struct settings *into;
	jmp_buf on_error;
	char message[80];
};

static const char *const files[] = {
	"[net]\nhost = a.example\nport = 80\n[log]\nlevel = warn\n",
	"[net]\nhost = b.example\nport = 8080\ntimeout = 30 \\\n seconds\n",
	"; nothing but a comment\n[log]\nlevel = info\npath = /var/log/x\n",
	"[db]\nuser = app\nname = main\npool = 8\n[net]\nport = 5432\n",
	"[cache]\nsize = 64M\nttl = 300\n[cache\nway = back\n",
	"[ui]\ntheme = dark\nlang = en\ntheme = light\n",
	"[jobs]\nnightly = 02:30\nweekly = sun\n",
	"[mail]\nfrom = me\nto = you\n= nobody\n",
	"[tls]\ncert = /etc/c.pem\nkey = /etc/k.pem\n",
	"[net]\nhost = c.example\n[log]\nlevel = debug\nformat = json\n",
	"[limits]\nfiles = 1024\nmemory = 2G\ncpu = 4\n",
	"[db]\nuser = batch\nname = reports\n[jobs]\nhourly = 15\n",
};
#define FILES (sizeof files / sizeof files[0])

static _Noreturn void fail(struct parser *p, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(p->message, sizeof p->message, format, list);
	va_end(list);
	longjmp(p->on_error, 1);
}

static char *copy(const char *from, size_t length)
{
	char *text = malloc(length + 1);

	if (!text)
		abort();
	memcpy(text, from, length);
	text[length] = '\0';
	return text;
}

static unsigned bucket_of(const char *key)
{
	unsigned h = 0;

	while (*key)
		h = h * 131 + (unsigned char)*key++;
	return h % BUCKETS;
}

static struct setting *settings_find(const struct settings *s, const char *key)
{
	struct setting *e = s->buckets[bucket_of(key)];

	while (e && strcmp(e->key, key) != 0)
		e = e->next;
	return e;
}

/* Takes over the key and the value, whether there is room for them or not. */
static int settings_add(struct settings *s, char *key, char *value, unsigned line)
{
	struct setting *e = settings_find(s, key);

	if (e) { /* @twice */
		free(key);
		free(value); /* @first-free */
		return -1;
	}
	e = malloc(sizeof *e);
	if (!e)
		abort();
	*e = (struct setting){s->buckets[bucket_of(key)], key, value, line};
	s->buckets[bucket_of(key)] = e;
	s->count++;
	return 0;
}

static void settings_clear(struct settings *s)
{
	for (int i = 0; i < BUCKETS; i++) {
		while (s->buckets[i]) {
			struct setting *e = s->buckets[i];

			s->buckets[i] = e->next;
			free(e->key);
			free(e->value);
			free(e);
		}
	}
	s->count = 0;
}

static size_t line_length(const char *at)
{
	return strcspn(at, "\n");
}

static void next_line(struct parser *p)
{
	p->at += line_length(p->at);
	if (*p->at == '\n')
		p->at++;
	p->line++;
}

static void parse_section(struct parser *p)
{
	const char *end = memchr(p->at, ']', line_length(p->at));
	size_t length;

	if (!end)
		fail(p, "line %u: section without end", p->line);
	length = (size_t)(end - p->at) - 1;
	if (length >= sizeof p->section)
		fail(p, "line %u: section name too long", p->line);
	memcpy(p->section, p->at + 1, length);
	p->section[length] = '\0';
	next_line(p);
}

/* The key with its section before it, as in net.port. */
static void parse_key(struct parser *p)
{
	size_t length = strcspn(p->at, "=\n"), used = strlen(p->section);
	size_t name = length;

	if (p->at[length] != '=')
		fail(p, "line %u: no value", p->line);
	while (name > 0 && isspace((unsigned char)p->at[name - 1]))
		name--;
	if (name == 0)
		fail(p, "line %u: no key", p->line);
	p->key = malloc(used + name + 2);
	if (!p->key)
		abort();
	memcpy(p->key, p->section, used);
	p->key[used] = '.';
	memcpy(p->key + used + 1, p->at, name);
	p->key[used + 1 + name] = '\0';
	p->at += length + 1;
}

static void parse_value(struct parser *p)
{
	char text[256];
	size_t used = 0;

	for (;;) {
		size_t length = line_length(p->at);
		int goes_on = length > 0 && p->at[length - 1] == '\\';
		const char *from = p->at;

		length -= (size_t)goes_on;
		for (; length > 0 && isspace((unsigned char)*from); from++)
			length--;
		if (used + length >= sizeof text)
			length = sizeof text - 1 - used;
		memcpy(text + used, from, length);
		used += length;
		next_line(p);
		if (!goes_on)
			break;
	}
	p->value = copy(text, used); /* @value-set */
}

static void parse_pair(struct parser *p)
{
	unsigned line = p->line;

	parse_key(p);
	parse_value(p); /* @parse-value */
	if (settings_add(p->into, p->key, p->value, line) < 0) { /* @add */
		p->key = NULL;
		fail(p, "line %u: set twice", line);
	}
	p->key = NULL;
	p->value = NULL;
}

static void release_in_hand(struct parser *p)
{
	free(p->key);
	free(p->value); /* @fail */
}

/* Returns how many settings there were, or -1 with the message printed. */
static int parse(const char *text, struct settings *into)
{
	struct parser *p = calloc(1, sizeof *p);
	int result = -1;

	if (!p)
		abort();
	p->at = text;
	p->line = 1;
	p->into = into;
	if (setjmp(p->on_error) == 0) {
		while (*p->at) {
			if (*p->at == '[')
				parse_section(p);
			else if (*p->at == ';' || *p->at == '\n')
				next_line(p);
			else
				parse_pair(p); /* @pair */
		}
		result = (int)into->count;
	} else {
		fprintf(stderr, "%s\n", p->message);
		release_in_hand(p); /* @release */
	}
	free(p);
	return result;
}

static void print_settings(const struct settings *s)
{
	for (int i = 0; i < BUCKETS; i++)
		for (const struct setting *e = s->buckets[i]; e; e = e->next)
			printf("%s = %s (line %u)\n", e->key, e->value, e->line);
}

/* Which files were changed since the last time. */
static size_t first_changed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (size_t)(((uint64_t)t.tv_nsec * 2654435761u >> 16) + (uint64_t)getpid()) % FILES;
}

int main(void)
{
	size_t first = first_changed();
	int bad = 0;

	for (size_t i = 0; i < FILES_PER_RUN; i++) {
		struct settings s = {0};

		if (parse(files[(first + i) % FILES], &s) < 0) /* @parse */
			bad++;
		print_settings(&s);
		settings_clear(&s);
	}
	printf("%d files with errors\n", bad);
	return 0;
}
