#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct node *node_new(const char *key, int level)
{
	struct node *n = calloc(1, sizeof *n + (size_t)level * sizeof n->next[0]);

	if (!n)
		abort();
	snprintf(n->key, sizeof n->key, "%s", key);
	n->level = level;
	return n;
}

struct registry *registry_new(void)
{
	struct registry *r = calloc(1, sizeof *r);

	if (!r)
		abort();
	pthread_rwlock_init(&r->shape, NULL);
	r->head = node_new("", MAX_LEVEL);
	r->level = 1;
	r->dice = 88172645463325252ul;
	return r;
}

static int draw_level(struct registry *r)
{
	int level = 1;

	r->dice ^= r->dice << 13;
	r->dice ^= r->dice >> 7;
	r->dice ^= r->dice << 17;
	for (unsigned long bits = r->dice; level < MAX_LEVEL && (bits & 1); bits >>= 1)
		level++;
	return level;
}

/* The last node before the key, on every level. */
static struct node *search(struct registry *r, const char *key, struct node **before)
{
	struct node *n = r->head;

	for (int i = r->level - 1; i >= 0; i--) {
		while (n->next[i] && strcmp(n->next[i]->key, key) < 0)
			n = n->next[i];
		if (before)
			before[i] = n;
	}
	return n->next[0] && strcmp(n->next[0]->key, key) == 0 ? n->next[0] : NULL;
}

struct node *registry_find(struct registry *r, const char *key)
{
	struct node *n;

	pthread_rwlock_rdlock(&r->shape);
	n = search(r, key, NULL);
	pthread_rwlock_unlock(&r->shape);
	return n;
}

struct node *registry_insert(struct registry *r, const char *key)
{
	struct node *before[MAX_LEVEL], *n;

	pthread_rwlock_wrlock(&r->shape);
	n = search(r, key, before);
	if (!n) {
		int level = draw_level(r);

		for (; r->level < level; r->level++)
			before[r->level] = r->head;
		n = node_new(key, level);
		for (int i = 0; i < level; i++) {
			n->next[i] = before[i]->next[i];
			before[i]->next[i] = n;
		}
		r->count++;
	}
	pthread_rwlock_unlock(&r->shape);
	return n;
}

/* The nodes whose keys begin with a prefix, in order; returns how many. */
size_t registry_prefix(struct registry *r, const char *prefix, struct node **found, size_t room)
{
	size_t length = strlen(prefix), count = 0;
	struct node *n = r->head;

	pthread_rwlock_rdlock(&r->shape);
	for (int i = r->level - 1; i >= 0; i--)
		while (n->next[i] && strncmp(n->next[i]->key, prefix, length) < 0)
			n = n->next[i];
	for (n = n->next[0]; n && count < room && strncmp(n->key, prefix, length) == 0; n = n->next[0])
		found[count++] = n;
	pthread_rwlock_unlock(&r->shape);
	return count;
}

void registry_free(struct registry *r)
{
	struct node *n = r->head;

	while (n) {
		struct node *next = n->next[0];

		free(n);
		n = next;
	}
	pthread_rwlock_destroy(&r->shape);
	free(r);
}
