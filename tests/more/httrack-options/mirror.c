/* The engine: workers take links, look up their hosts and save the files. */
#include "mirror.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The network takes from `least` to `most` microseconds to answer. */
void pause_between(unsigned least, unsigned most)
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

struct mirror *mirror_new(void)
{
	struct mirror *m = malloc(sizeof *m);

	memset(m, 0, sizeof *m); /* @zero */
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void mirror_add(struct mirror *m, const char *host, const char *path)
{
	struct link *l = malloc(sizeof *l);

	l->host = host;
	l->path = path;
	pthread_mutex_lock(&m->lock);
	l->next = m->pending;
	m->pending = l;
	pthread_mutex_unlock(&m->lock);
}

static struct link *take_link(struct mirror *m)
{
	struct link *l;

	pthread_mutex_lock(&m->lock);
	l = m->pending;
	if (l)
		m->pending = l->next;
	pthread_mutex_unlock(&m->lock);
	return l;
}

static uint32_t resolve_host(const char *host)
{
	uint32_t address = 10u << 24;

	while (*host)
		address ^= (uint32_t)(unsigned char)*host++ * 2654435761u >> 8;
	pause_between(2500, 26000);
	return address;
}

static size_t download(uint32_t address, const char *path)
{
	pause_between(300, 1500);
	return strlen(path) * 100 + address % 1000;
}

static void save_link(struct mirror *m, const struct link *l, uint32_t address)
{
	const struct hooks *hooks = m->hooks; /* @hooks-read */
	size_t bytes;

	if (!hooks->accept(l->host, l->path)) { /* @fail */
		pthread_mutex_lock(&m->lock);
		m->refused++;
		pthread_mutex_unlock(&m->lock);
		return;
	}
	bytes = download(address, l->path);
	pthread_mutex_lock(&m->lock);
	hooks->saved(l->path, bytes);
	m->files++;
	pthread_mutex_unlock(&m->lock);
}

static void *fetch_links(void *arg)
{
	struct mirror *m = arg; /* @arg */
	struct link *l;

	while ((l = take_link(m)) != NULL) {
		uint32_t address = resolve_host(l->host);

		save_link(m, l, address); /* @save */
		free(l);
	}
	return NULL;
}

void mirror_start(struct mirror *m)
{
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&m->workers[i], NULL, fetch_links, m); /* @create */
}

void mirror_set_hooks(struct mirror *m, struct hooks *hooks)
{
	m->hooks = hooks; /* @hooks-write */
}

void mirror_wait(struct mirror *m)
{
	for (int i = 0; i < WORKERS; i++)
		pthread_join(m->workers[i], NULL);
}

void mirror_report(const struct mirror *m)
{
	printf("%zu files saved, %zu refused, depth %u\n", m->files, m->refused,
	       m->hooks ? m->hooks->max_depth : 0);
}

void mirror_free(struct mirror *m)
{
	pthread_mutex_destroy(&m->lock);
	free(m->hooks);
	free(m);
}
