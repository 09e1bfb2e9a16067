/* Messages that have come and wait for being decoded. */
#include "host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct message *head, **tail;
	unsigned put, taken;
} inbox = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &inbox.head, 0, 0};

void inbox_put(enum message_kind kind, const void *body, size_t length)
{
	struct message *m = malloc(sizeof *m + length);

	if (!m)
		abort();
	m->next = NULL;
	m->kind = kind;
	m->length = length;
	memcpy(m->body, body, length);
	pthread_mutex_lock(&inbox.lock);
	*inbox.tail = m;
	inbox.tail = &m->next;
	inbox.put++;
	pthread_cond_signal(&inbox.filled);
	pthread_mutex_unlock(&inbox.lock);
}

struct message *inbox_take(void)
{
	struct message *m;

	pthread_mutex_lock(&inbox.lock);
	while (!inbox.head)
		pthread_cond_wait(&inbox.filled, &inbox.lock);
	m = inbox.head;
	inbox.head = m->next;
	if (!inbox.head)
		inbox.tail = &inbox.head;
	inbox.taken++;
	pthread_mutex_unlock(&inbox.lock);
	return m;
}

unsigned inbox_discard(void)
{
	unsigned dropped = 0;

	pthread_mutex_lock(&inbox.lock);
	while (inbox.head) {
		struct message *m = inbox.head;

		inbox.head = m->next;
		free(m);
		dropped++;
	}
	inbox.tail = &inbox.head;
	pthread_mutex_unlock(&inbox.lock);
	return dropped;
}
