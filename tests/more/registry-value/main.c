/* A server's settings: an administrator changes them, an exporter writes them down. */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTS 4

struct export {
	struct registry *registry;
	char text[1024];
	size_t length;
	unsigned times;
};

struct change {
	const char *key;
	const char *text;
};

static void load_defaults(struct registry *r)
{
	value_set_text(&registry_insert(r, "net.host")->value, "localhost");
	value_set_number(&registry_insert(r, "net.port")->value, 8080);
	value_set_number(&registry_insert(r, "net.backlog")->value, 128);
	value_set_flag(&registry_insert(r, "log.verbose")->value, false);
	value_set_real(&registry_insert(r, "log.sample")->value, 0.25);
	value_set_number(&registry_insert(r, "pool.size")->value, 16);
	value_set_text(&registry_insert(r, "pool.name")->value, "main \"pool\"");
}

/* A word that is a number is one; anything else is a text. */
static int apply(struct registry *r, const struct change *c)
{
	struct node *n = registry_find(r, c->key);
	char *end;
	long number;

	if (!n)
		return -1;
	number = strtol(c->text, &end, 10);
	if (*end == '\0')
		value_set_number(&n->value, number);
	else
		value_set_text(&n->value, c->text); /* @set-text */
	return 0;
}

static void *administrator(void *arg)
{
	static const struct change changes[] = {
		{"net.backlog", "256"}, {"net.port", "auto"}, {"net.hots", "typo"}, {"pool.size", "32"},
	};
	struct registry *r = arg;

	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		nap(1000, 14000);
		if (apply(r, &changes[i]) < 0) /* @apply */
			fprintf(stderr, "no setting %s\n", changes[i].key);
	}
	return NULL;
}

static void export_all(struct export *e)
{
	char value[96];

	pthread_rwlock_rdlock(&e->registry->shape);
	e->length = 0;
	for (struct node *n = e->registry->head->next[0]; n; n = n->next[0]) {
		value_render(&n->value, value, sizeof value); /* @render */
		n->reads++;
		e->length += (size_t)snprintf(e->text + e->length, sizeof e->text - e->length, "%s = %s\n", n->key,
					      value);
	}
	pthread_rwlock_unlock(&e->registry->shape);
	e->times++;
}

static void *exporter(void *arg)
{
	struct export *e = arg;

	for (int i = 0; i < EXPORTS; i++) {
		nap(1000, 12000);
		export_all(e); /* @export */
	}
	return NULL;
}

/* How often the settings of each group were read. */
static void print_groups(struct registry *r)
{
	static const char *const groups[] = {"log.", "net.", "pool."};
	struct node *nodes[16];

	for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
		size_t count = registry_prefix(r, groups[i], nodes, sizeof nodes / sizeof nodes[0]);
		unsigned reads = 0;

		for (size_t k = 0; k < count; k++)
			reads += nodes[k]->reads;
		printf("%-5s %zu settings, %u reads\n", groups[i], count, reads);
	}
}

static void print_export(const struct export *e)
{
	fputs(e->text, stdout);
	printf("%zu settings, exported %u times\n", e->registry->count, e->times);
}

int main(void)
{
	struct registry *r = registry_new();
	struct export *e = calloc(1, sizeof *e);
	pthread_t threads[2];

	if (!e)
		return 1;
	load_defaults(r);
	e->registry = r;
	if (pthread_create(&threads[0], NULL, administrator, r) || pthread_create(&threads[1], NULL, exporter, e))
		return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	print_export(e);
	print_groups(r);
	free(e);
	registry_free(r);
	return 0;
}
