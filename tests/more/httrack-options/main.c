/* Copies web sites: reads which links to follow, and the user's options from a file. */
#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const option_file[] = {"depth=3", "refuse=.exe", "refuse=.iso", "log=saved.txt"};
static const char *refused[4];
static size_t refused_count, saved_bytes;

static int accept_link(const char *host, const char *path)
{
	for (size_t i = 0; i < refused_count; i++)
		if (strstr(path, refused[i]))
			return 0;
	return strchr(host, '.') != NULL;
}

static void note_saved(const char *path, size_t bytes)
{
	saved_bytes += bytes + strlen(path);
}

static struct hooks *read_options(void)
{
	struct hooks *hooks = calloc(1, sizeof *hooks);

	hooks->accept = accept_link;
	hooks->saved = note_saved;
	for (size_t i = 0; i < sizeof option_file / sizeof option_file[0]; i++) {
		const char *value = strchr(option_file[i], '=') + 1;

		pause_between(200, 2200);
		if (strncmp(option_file[i], "depth", 5) == 0)
			hooks->max_depth = (unsigned)atoi(value);
		else if (strncmp(option_file[i], "refuse", 6) == 0)
			refused[refused_count++] = value;
	}
	return hooks;
}

int main(void)
{
	struct mirror *m = mirror_new(); /* @new */

	mirror_add(m, "www.example.org", "/index.html");
	mirror_add(m, "img.example.org", "/logo.png");
	mirror_add(m, "get.example.org", "/setup.exe");
	/* Looking up hosts takes long, so it begins while the options are read. */
	mirror_start(m); /* @start */
	mirror_set_hooks(m, read_options());
	mirror_wait(m);
	mirror_report(m);
	printf("%zu bytes\n", saved_bytes);
	mirror_free(m);
	return 0;
}
