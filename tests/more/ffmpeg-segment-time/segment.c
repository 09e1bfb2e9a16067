/* Records streams into segments; a list for each hour of the day says what was recorded in it. */
#include "civil.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STREAMS 2
#define SEGMENTS 2
#define HOURS 24

struct hour_list {
	unsigned segments;
	size_t bytes;
};

struct stream {
	const char *name;
	int64_t start;
	int64_t length;
	struct hour_list *hours[HOURS];
};

static struct stream streams[STREAMS] = {
	{"morning", 1735689600 + 9 * 3600, 600, {NULL}},
	{"evening", 1735689600 + 21 * 3600, 600, {NULL}},
};

/* Cameras and disks take from `least` to `most` microseconds. */
static void wait_us(unsigned least, unsigned most)
{
	static _Thread_local uint64_t noise;
	struct timespec t;

	if (noise == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		noise = ((uint64_t)t.tv_nsec << 20) ^ (uintptr_t)&noise;
	}
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	t.tv_sec = 0;
	t.tv_nsec = (long)(least + (noise >> 11) % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

/* A list for every hour that the recording touches. */
static void open_lists(struct stream *s)
{
	int first = (int)(s->start % 86400 / 3600);
	int last = (int)((s->start + s->length * SEGMENTS) % 86400 / 3600);

	for (int hour = first; hour <= last; hour++)
		s->hours[hour] = calloc(1, sizeof(struct hour_list));
}

static size_t write_media(const struct stream *s, int number)
{
	wait_us(300, 1400);
	return 1000 + 10 * (size_t)number + (size_t)(s->length % 100);
}

static void add_segment(struct stream *s, int number)
{
	const struct civil *when = civil_time(s->start + number * s->length); /* @convert */
	size_t bytes = write_media(s, number);
	struct hour_list *list = s->hours[when->hour]; /* @hour-read */

	list->segments++; /* @fail */
	list->bytes += bytes;
}

static void *record(void *arg)
{
	struct stream *s = arg;

	for (int i = 0; i < SEGMENTS; i++) {
		wait_us(500, 20000);
		add_segment(s, i); /* @add */
	}
	return NULL;
}

static void print_lists(const struct stream *s)
{
	char date[32];

	civil_print(civil_time(s->start), date, sizeof date);
	printf("%s, from %s:", s->name, date);
	for (int hour = 0; hour < HOURS; hour++)
		if (s->hours[hour])
			printf(" %02d h %u segments", hour, s->hours[hour]->segments);
	printf("\n");
}

int main(void)
{
	pthread_t threads[STREAMS];

	for (int i = 0; i < STREAMS; i++) {
		open_lists(&streams[i]);
		pthread_create(&threads[i], NULL, record, &streams[i]);
	}
	for (int i = 0; i < STREAMS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < STREAMS; i++)
		print_lists(&streams[i]);
	return 0;
}
