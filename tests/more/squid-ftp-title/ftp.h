#ifndef FTP_H
#define FTP_H

#include <stddef.h>

struct request {
	const char *user, *host, *path;
};

struct mime_icon {
	const char *suffix, *icon;
};

struct reply {
	const struct mime_icon *icons;
	unsigned entries;
	size_t length;
};

extern const struct mime_icon default_icons[];

void add_entry(struct reply *reply, const char *name);

#endif
