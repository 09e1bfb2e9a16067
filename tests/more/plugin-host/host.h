#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

enum message_kind { KIND_TEXT, KIND_RUNS, KIND_DELTA, KIND_COUNT };

/* What a plugin can do with messages of its kind. */
struct codec {
	const char *name;
	size_t (*decode)(const uint8_t *body, size_t length, uint8_t *out, size_t room);
	size_t (*encode)(const uint8_t *body, size_t length, uint8_t *out, size_t room);
	unsigned uses;
};

struct message {
	struct message *next;
	enum message_kind kind;
	size_t length;
	uint8_t body[];
};

struct plugin {
	const char *path;
	enum message_kind kind;
	void (*init)(struct codec *slot);
};

/* registry.c */
void registry_init(void);
int registry_load(const struct plugin *p);
struct codec *registry_slot(enum message_kind kind);
void registry_print(void);

/* inbox.c */
void inbox_put(enum message_kind kind, const void *body, size_t length);
struct message *inbox_take(void);
unsigned inbox_discard(void);

/* codecs.c */
extern const struct plugin builtin_plugins[KIND_COUNT];

/* wait.c */
void wait_between(unsigned least_us, unsigned most_us);

#endif
