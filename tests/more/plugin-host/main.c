/*
 * A message host. What decodes a kind of message is a plugin; plugins are loaded at the
 * start, while the receiver already listens: the first message takes a while to come.
 */
#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROOM 512
#define MESSAGES 4

struct statistics {
	size_t in, out;
	uint32_t digest;
	unsigned rejected;
};

static const uint8_t sample[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};

/* The wire: somebody sends, at his own pace. */
static void *peer(void *arg)
{
	(void)arg;
	wait_between(4000, 26000);
	for (int i = 0; i < MESSAGES; i++) {
		inbox_put(KIND_DELTA, sample + i, sizeof sample - (size_t)i);
		wait_between(100, 1500);
	}
	return NULL;
}

static uint32_t digest(uint32_t sum, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		sum = (sum ^ bytes[i]) * 0x01000193u;
	return sum;
}

static void decode_message(const struct message *m, struct statistics *s)
{
	struct codec *c = registry_slot(m->kind);
	uint8_t out[ROOM];
	size_t length;

	if (!c) {
		s->rejected++;
		return;
	}
	length = c->decode(m->body, m->length, out, sizeof out); /* @fail */
	c->uses++;
	s->in += m->length;
	s->out += length;
	s->digest = digest(s->digest, out, length);
}

static void *receiver(void *arg)
{
	struct statistics *s = arg; /* @arg */

	for (int i = 0; i < MESSAGES; i++) {
		struct message *m = inbox_take();

		decode_message(m, s); /* @decode */
		free(m);
	}
	return NULL;
}

/* What the digest was made of, for a person. */
static void print_sample(void)
{
	for (size_t i = 0; i < sizeof sample; i += 8) {
		printf("%04zx ", i);
		for (size_t j = i; j < i + 8 && j < sizeof sample; j++)
			printf(" %02x", sample[j]);
		putchar('\n');
	}
}

static void print_statistics(const struct statistics *s)
{
	printf("%zu bytes in, %zu out, %u rejected, %u left, digest %08x\n", s->in, s->out, s->rejected,
	       inbox_discard(), s->digest);
}

static int load_plugins(void)
{
	int failed = 0;

	for (int i = 0; i < KIND_COUNT; i++) {
		const struct plugin *p = &builtin_plugins[i];

		if (registry_load(p)) {
			fprintf(stderr, "%s: not loaded\n", p->path);
			failed++;
		}
	}
	return failed;
}

int main(void)
{
	struct statistics s = {.digest = 0x811c9dc5u};
	pthread_t receiving, sending;

	registry_init();
	if (pthread_create(&sending, NULL, peer, NULL) || pthread_create(&receiving, NULL, receiver, &s)) /* @create */
		return 1;
	if (load_plugins())
		return 1;
	pthread_join(sending, NULL);
	pthread_join(receiving, NULL);
	print_statistics(&s);
	registry_print();
	print_sample();
	return 0;
}
