#ifndef REGISTRY_H
#define REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define MAX_LEVEL 6
#define KEY_SIZE 32

enum tag { TAG_NONE, TAG_NUMBER, TAG_REAL, TAG_FLAG, TAG_TEXT };

/* A setting may change its type: a port may be 8080 or "auto". */
struct value {
	enum tag tag;
	union {
		long number;
		double real;
		bool flag;
		const char *text;
	} u;
};

/* A node of a skip list, ordered by key. */
struct node {
	char key[KEY_SIZE];
	struct value value;
	unsigned reads;
	int level;
	struct node *next[];
};

struct registry {
	pthread_rwlock_t shape; /* which nodes there are; values have no lock */
	struct node *head;
	int level;
	size_t count;
	unsigned long dice;
};

struct registry *registry_new(void);
struct node *registry_find(struct registry *r, const char *key);
struct node *registry_insert(struct registry *r, const char *key);
size_t registry_prefix(struct registry *r, const char *prefix, struct node **found, size_t room);
void registry_free(struct registry *r);

void value_set_number(struct value *v, long number);
void value_set_real(struct value *v, double real);
void value_set_flag(struct value *v, bool flag);
void value_set_text(struct value *v, const char *text);
size_t value_render(const struct value *v, char *out, size_t room);

void nap(unsigned least_us, unsigned most_us);

#endif
