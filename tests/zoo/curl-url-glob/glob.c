/* A downloader that expands sets in URLs: a.example/{one,two} stands for two addresses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SETS 4
#define MAX_WORDS 8
#define BATCH 2

struct url_set {
	char **words;
	size_t count, next;
};

struct url_glob {
	char prefix[64];
	struct url_set sets[MAX_SETS];
	size_t size;
};

struct totals {
	size_t urls, bytes;
};

static const char *const fetch_list[] = {
	"http://a.example/{index,news}.html", "http://b.example/about.html",
	"http://c.example/img/{logo,photo,map}.png", "http://d.example/feed.xml",
	"http://e.example/{de,en,fr}/{home,help}", "http://f.example/data/{2024,2025}.csv",
	"http://g.example/{}{", "http://h.example/robots.txt",
	"http://i.example/{small,large}.iso", "http://j.example/search?q={cats,dogs}",
};

static char **split_words(char *text, size_t *count)
{
	char **words = calloc(MAX_WORDS, sizeof *words);

	for (char *w = text; w && *count < MAX_WORDS; (*count)++) {
		char *comma = strchr(w, ',');

		if (comma)
			*comma++ = '\0';
		words[*count] = strdup(w);
		w = comma;
	}
	return words;
}

/* Parses one set after its opening brace; returns what follows it. */
static const char *glob_set(struct url_glob *glob, const char *text)
{
	struct url_set *set = &glob->sets[glob->size++]; /* @add */
	const char *end = strchr(text, '}'); /* @close */
	char *inside;

	if (!end) /* @unclosed */
		return text + strlen(text);
	inside = strndup(text, (size_t)(end - text));
	set->words = split_words(inside, &set->count);
	free(inside);
	return end + 1;
}

static struct url_glob *glob_parse(const char *url)
{
	struct url_glob *glob = calloc(1, sizeof *glob); /* @alloc */
	size_t prefix = strcspn(url, "{");

	snprintf(glob->prefix, sizeof glob->prefix, "%.*s", (int)prefix, url);
	url += prefix;
	while (*url && glob->size < MAX_SETS) {
		if (*url == '{')
			url = glob_set(glob, url + 1); /* @parse */
		else
			url++;
	}
	return glob;
}

static void next_url(const struct url_glob *glob, char *url, size_t room)
{
	size_t used = (size_t)snprintf(url, room, "%s", glob->prefix);

	for (size_t i = 0; i < glob->size; i++) { /* @bound */
		const struct url_set *set = &glob->sets[i]; /* @set */

		used += (size_t)snprintf(url + used, room - used, "/%s", set->words[set->next]); /* @fail */
	}
}

/* Steps the last set first, like an odometer; returns whether there is another URL. */
static int advance(struct url_glob *glob)
{
	for (size_t i = glob->size; i-- > 0;) {
		if (++glob->sets[i].next < glob->sets[i].count)
			return 1;
		glob->sets[i].next = 0;
	}
	return 0;
}

static void glob_cleanup(struct url_glob *glob)
{
	for (size_t i = 0; i < glob->size; i++) {
		for (size_t w = 0; w < glob->sets[i].count; w++)
			free(glob->sets[i].words[w]);
		free(glob->sets[i].words);
	}
	free(glob);
}

static void fetch(const char *pattern, struct totals *totals)
{
	struct url_glob *glob = glob_parse(pattern);
	char url[160];

	do {
		next_url(glob, url, sizeof url); /* @next */
		totals->urls++;
		totals->bytes += strlen(url);
	} while (advance(glob));
	glob_cleanup(glob);
}

static void print_totals(const struct totals *totals)
{
	printf("%zu urls, %zu bytes of addresses\n", totals->urls, totals->bytes);
}

/* Every run goes on with another part of the list. */
static size_t rotation(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (size_t)((uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u >> 40);
}

int main(void)
{
	size_t length = sizeof fetch_list / sizeof fetch_list[0], first = rotation();
	struct totals totals = {0, 0};

	for (size_t i = 0; i < BATCH; i++)
		fetch(fetch_list[(first + i) % length], &totals); /* @fetch */
	print_totals(&totals);
	return 0;
}
