/* The table of codecs, one slot for each kind of message. */
#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct codec slots[KIND_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned loaded;

void registry_init(void)
{
	memset(slots, 0, sizeof slots);
	for (int i = 0; i < KIND_COUNT; i++)
		slots[i].name = "(none)";
}

/* A plugin fills its slot itself. */
int registry_load(const struct plugin *p)
{
	if (p->kind >= KIND_COUNT)
		return -1;
	wait_between(600, 3600);
	pthread_mutex_lock(&lock);
	p->init(&slots[p->kind]);
	loaded++;
	pthread_mutex_unlock(&lock);
	return 0;
}

struct codec *registry_slot(enum message_kind kind)
{
	return kind < KIND_COUNT ? &slots[kind] : NULL;
}

void registry_print(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < KIND_COUNT; i++)
		printf("%d %-8s %s, used %u times\n", i, slots[i].name, slots[i].decode ? "ready" : "missing",
		       slots[i].uses);
	printf("%u plugins\n", loaded);
	pthread_mutex_unlock(&lock);
}
