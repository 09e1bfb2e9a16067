/* The lines of a listing, each with the icon of its kind. */
#include <stdio.h>
#include <string.h>
#include "ftp.h"

const struct mime_icon default_icons[] = {
	{".gz", "archive"}, {".iso", "disc"}, {".txt", "text"}, {"/", "folder"}, {"", "file"},
};

static const char *find_icon(const struct reply *reply, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0;; i++) {
		const char *suffix = reply->icons[i].suffix; /* @fail */
		size_t n = strlen(suffix);

		if (n <= length && strcmp(name + length - n, suffix) == 0)
			return reply->icons[i].icon;
	}
}

void add_entry(struct reply *reply, const char *name)
{
	char line[96];
	const char *icon = find_icon(reply, name); /* @find-icon */

	reply->length += (size_t)snprintf(line, sizeof line, "[%s] %s\n", icon, name);
	reply->entries++;
}
