#define _DEFAULT_SOURCE
#include "registry.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Disks, locks of others, a page that is not there: everything takes some time. */
void nap(unsigned least_us, unsigned most_us)
{
	static _Thread_local struct random_data data;
	static _Thread_local char state[64];
	struct timespec t;
	int32_t draw;

	if (!data.state) {
		clock_gettime(CLOCK_REALTIME, &t);
		initstate_r((unsigned)t.tv_nsec ^ (unsigned)((uintptr_t)state >> 6), state, sizeof state, &data);
	}
	random_r(&data, &draw);
	t.tv_sec = 0;
	t.tv_nsec = (long)(least_us + (unsigned)draw % (most_us - least_us)) * 1000;
	nanosleep(&t, NULL);
}

/* Texts are kept once and for ever, in a file that is mapped by others too. */
static const char *intern(const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char *kept[64];
	static size_t count;
	char *found = NULL;

	pthread_mutex_lock(&lock);
	nap(300, 1800);
	for (size_t i = 0; i < count && !found; i++)
		if (strcmp(kept[i], text) == 0)
			found = kept[i];
	if (!found && count < sizeof kept / sizeof kept[0])
		found = kept[count++] = strdup(text);
	pthread_mutex_unlock(&lock);
	return found ? found : "";
}

void value_set_number(struct value *v, long number)
{
	v->tag = TAG_NUMBER;
	v->u.number = number;
}

void value_set_real(struct value *v, double real)
{
	v->tag = TAG_REAL;
	v->u.real = real;
}

void value_set_flag(struct value *v, bool flag)
{
	v->tag = TAG_FLAG;
	v->u.flag = flag;
}

void value_set_text(struct value *v, const char *text)
{
	v->tag = TAG_TEXT; /* @tag-write */
	v->u.text = intern(text); /* @text-write */
}

static size_t render_text(const char *text, char *out, size_t room)
{
	size_t used = 0;

	for (; *text && used + 2 < room; text++) { /* @fail */
		if (*text == '"')
			out[used++] = '\\';
		out[used++] = *text;
	}
	out[used] = '\0';
	return used;
}

size_t value_render(const struct value *v, char *out, size_t room)
{
	switch (v->tag) { /* @tag-read */
	case TAG_NUMBER:
		return (size_t)snprintf(out, room, "%ld", v->u.number);
	case TAG_REAL:
		return (size_t)snprintf(out, room, "%g", v->u.real);
	case TAG_FLAG:
		return (size_t)snprintf(out, room, "%s", v->u.flag ? "on" : "off");
	case TAG_TEXT:
		return render_text(v->u.text, out, room); /* @text-read */
	case TAG_NONE:
		break;
	}
	return 0;
}
