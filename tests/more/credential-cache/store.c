#include "store.h"

#include <stdlib.h>
#include <string.h>

/* Secrets must not stay in freed memory. */
static void secure_free(void *memory, size_t size)
{
	if (memory)
		explicit_bzero(memory, size); /* @scrub */
	free(memory);
}

static void secure_free_text(char *text)
{
	if (text)
		secure_free(text, strlen(text));
}

static void *xcalloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		abort();
	return memory;
}

void store_init(struct store *store)
{
	store->table = xcalloc(STORE_START, sizeof *store->table); /* @table */
	store->room = STORE_START;
	store->used = 0;
	store->grown = 0;
}

void store_done(struct store *store)
{
	for (size_t i = 0; i < store->used; i++) {
		free(store->table[i].host);
		free(store->table[i].user);
		secure_free_text(store->table[i].secret);
	}
	secure_free(store->table, store->room * sizeof *store->table);
	store->table = NULL;
}

/* Twice the room; the old table is scrubbed before it is given back. */
static void store_grow(struct store *store)
{
	size_t room = store->room * 2;
	struct credential *table = xcalloc(room, sizeof *table);

	memcpy(table, store->table, store->used * sizeof *table);
	secure_free(store->table, store->room * sizeof *table); /* @give-back */
	store->table = table;
	store->room = room;
	store->grown++;
}

struct credential *store_find(const struct store *store, const char *host)
{
	for (size_t i = 0; i < store->used; i++)
		if (strcmp(store->table[i].host, host) == 0)
			return &store->table[i]; /* @address */
	return NULL;
}

struct credential *store_put(struct store *store, const char *host, const char *user, const char *secret)
{
	struct credential *c = store_find(store, host);

	if (c) {
		secure_free_text(c->secret);
		c->secret = strdup(secret);
		return c;
	}
	if (store->used == store->room)
		store_grow(store); /* @grow */
	c = &store->table[store->used++];
	c->host = strdup(host);
	c->user = strdup(user);
	c->secret = strdup(secret);
	return c;
}
