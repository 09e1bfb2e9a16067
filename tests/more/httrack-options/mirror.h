#ifndef MIRROR_H
#define MIRROR_H

#include <pthread.h>
#include <stddef.h>

#define WORKERS 2

/* What a mirror asks the program around it. */
struct hooks {
	int (*accept)(const char *host, const char *path);
	void (*saved)(const char *path, size_t bytes);
	unsigned max_depth;
};

struct link {
	const char *host, *path;
	struct link *next;
};

struct mirror {
	pthread_mutex_t lock;
	struct link *pending;
	struct hooks *hooks;
	size_t files, refused;
	pthread_t workers[WORKERS];
};

void pause_between(unsigned least, unsigned most);

struct mirror *mirror_new(void);
void mirror_add(struct mirror *m, const char *host, const char *path);
void mirror_start(struct mirror *m);
void mirror_set_hooks(struct mirror *m, struct hooks *hooks);
void mirror_wait(struct mirror *m);
void mirror_report(const struct mirror *m);
void mirror_free(struct mirror *m);

#endif
