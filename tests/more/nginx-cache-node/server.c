/* Two workers answer requests out of the cache; a manager expires what is not in use. */
#include "cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 2
#define REQUESTS 3
#define CHUNK 512
#define INACTIVE_US 7500

struct connection {
	int number;
	size_t sent;
	unsigned status;
	uint32_t digest;
	char out[CHUNK];
};

struct server {
	struct cache cache;
	atomic_int quit;
	struct connection connections[WORKERS];
};

static struct server server;

static const char *const site[WORKERS][REQUESTS] = {
	{"/index.html", "/img/logo.png", "/style.css"},
	{"/news.html", "/img/map.png", "/index.html"},
};

static void send_header(struct connection *c, unsigned status)
{
	c->status = status;
	c->sent += (size_t)snprintf(c->out, sizeof c->out, "HTTP/1.1 %u OK\r\n\r\n", status);
	io_wait(100, 1200);
}

/* Copies the next part of a file into the connection's buffer; returns its length. */
static size_t fill_buffer(struct connection *c, const struct cached_file *file, size_t offset)
{
	size_t length = file->size - offset; /* @fail */

	if (length > CHUNK)
		length = CHUNK;
	memcpy(c->out, file->data + offset, length);
	return length;
}

static void flush_buffer(struct connection *c, size_t length)
{
	for (size_t i = 0; i < length; i++)
		c->digest = c->digest * 16777619u ^ (unsigned char)c->out[i];
	c->sent += length;
	io_wait(200, 2600);
}

static void send_file(struct connection *c, const struct cache_node *node)
{
	size_t offset = 0, length;

	send_header(c, 200);
	while ((length = fill_buffer(c, node->file, offset)) > 0) { /* @use */
		flush_buffer(c, length);
		offset += length;
	}
}

static void handle_request(struct server *s, struct connection *c, const char *path)
{
	struct cache_node *node = cache_lookup(&s->cache, path);

	if (node->file == NULL)
		cache_load(&s->cache, node); /* @read-in */
	if (node->file == NULL) { /* @check */
		send_header(c, 404);
		return;
	}
	send_file(c, node); /* @send */
}

static void *worker(void *arg)
{
	struct connection *c = arg;

	for (int i = 0; i < REQUESTS; i++) {
		io_wait(100, 2000);
		handle_request(&server, c, site[c->number][i]); /* @handle */
	}
	return NULL;
}

static void *cache_manager(void *arg)
{
	struct server *s = arg;

	while (!atomic_load(&s->quit)) {
		io_wait(4000, 9000);
		cache_expire(&s->cache, INACTIVE_US); /* @expire */
	}
	return NULL;
}

int main(void)
{
	pthread_t workers[WORKERS], manager;

	cache_init(&server.cache);
	pthread_create(&manager, NULL, cache_manager, &server);
	for (int i = 0; i < WORKERS; i++) {
		server.connections[i].number = i;
		pthread_create(&workers[i], NULL, worker, &server.connections[i]);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	atomic_store(&server.quit, 1);
	pthread_join(manager, NULL);
	cache_print(&server.cache);
	for (int i = 0; i < WORKERS; i++)
		printf("connection %d: %zu bytes, digest %08x\n", i, server.connections[i].sent,
		       server.connections[i].digest);
	return 0;
}
