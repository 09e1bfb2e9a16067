/* The table of credentials that a caching helper keeps in memory. */
#ifndef STORE_H
#define STORE_H

#include <stddef.h>

#define STORE_START 8

struct credential {
	char *host;
	char *user;
	char *secret;
	unsigned uses;
};

struct store {
	struct credential *table;
	size_t used, room;
	unsigned grown;
};

void store_init(struct store *store);
void store_done(struct store *store);
struct credential *store_find(const struct store *store, const char *host);
struct credential *store_put(struct store *store, const char *host, const char *user, const char *secret);

#endif
