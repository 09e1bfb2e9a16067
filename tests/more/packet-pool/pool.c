/*
 * The sending side of a radio link. Packets come from a pool of fixed size; messages that do
 * not fit into one are sent in fragments, control packets go between them.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define POOL_SIZE 6
#define PAYLOAD 64
#define EVENTS 8

enum packet_kind { PACKET_FREE, PACKET_WHOLE, PACKET_FRAGMENT, PACKET_CONTROL };

struct packet {
	struct packet *next;
	uint8_t kind;
	uint8_t more : 1;
	uint8_t urgent : 1;
	uint16_t length;
	uint16_t sequence;
	uint16_t offset; /* in the message, for a fragment */
	uint8_t payload[PAYLOAD];
};

struct pool {
	struct packet packets[POOL_SIZE];
	struct packet *free;
	unsigned in_use, peak;
};

struct link {
	struct pool pool;
	struct packet *queue, **tail;
	uint16_t sequence;
	unsigned sent, control;
	uint32_t crc;
};

/* What the application does: sends something, or the link wants to say something. */
enum event_kind { EVENT_SHORT, EVENT_LONG, EVENT_KEEPALIVE, EVENT_DRAIN };

struct event {
	enum event_kind kind;
	uint32_t due;
};

static void pool_init(struct pool *pool)
{
	memset(pool, 0, sizeof *pool);
	for (int i = POOL_SIZE; i-- > 0;) {
		pool->packets[i].next = pool->free;
		pool->free = &pool->packets[i];
	}
}

static struct packet *packet_get(struct pool *pool, enum packet_kind kind)
{
	struct packet *p = pool->free;

	if (!p)
		return NULL;
	pool->free = p->next;
	p->next = NULL;
	p->kind = (uint8_t)kind;
	p->more = 0;
	p->urgent = kind == PACKET_CONTROL;
	p->length = 0;
	if (++pool->in_use > pool->peak)
		pool->peak = pool->in_use;
	return p;
}

static void packet_put(struct pool *pool, struct packet *p)
{
	p->kind = PACKET_FREE;
	p->next = pool->free;
	pool->free = p;
	pool->in_use--;
}

static void enqueue(struct link *l, struct packet *p)
{
	p->sequence = l->sequence++;
	p->next = NULL;
	*l->tail = p;
	l->tail = &p->next;
}

static uint32_t crc32_add(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	crc = ~crc;
	while (length--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Control packets are read by the peer's hardware, which knows no fragments. */
static void transmit_control(struct link *l, const struct packet *p)
{
	assert(p->offset == 0); /* @fail */
	l->crc = crc32_add(l->crc, &p->sequence, sizeof p->sequence);
	l->control++;
}

static void transmit_data(struct link *l, const struct packet *p)
{
	l->crc = crc32_add(l->crc, p->payload, p->length);
	l->sent++;
}

static void drain(struct link *l)
{
	while (l->queue) {
		struct packet *p = l->queue;

		l->queue = p->next;
		if (p->kind == PACKET_CONTROL)
			transmit_control(l, p); /* @control */
		else
			transmit_data(l, p);
		packet_put(&l->pool, p);
	}
	l->tail = &l->queue;
}

static int send_whole(struct link *l, const void *data, uint16_t length)
{
	struct packet *p = packet_get(&l->pool, PACKET_WHOLE);

	if (!p)
		return -1;
	p->offset = 0;
	p->length = length;
	memcpy(p->payload, data, length);
	enqueue(l, p);
	return 0;
}

static int send_fragments(struct link *l, const uint8_t *data, uint16_t length)
{
	for (uint16_t at = 0; at < length; at += PAYLOAD) {
		struct packet *p = packet_get(&l->pool, PACKET_FRAGMENT);

		if (!p)
			return -1;
		p->offset = at; /* @offset-set */
		p->length = length - at < PAYLOAD ? length - at : PAYLOAD;
		p->more = at + PAYLOAD < length;
		memcpy(p->payload, data + at, p->length);
		enqueue(l, p);
	}
	return 0;
}

static int send_keepalive(struct link *l)
{
	struct packet *p = packet_get(&l->pool, PACKET_CONTROL); /* @get */

	if (!p)
		return -1;
	p->payload[p->length++] = 'K';
	enqueue(l, p);
	return 0;
}

static int by_due(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return (x->due > y->due) - (x->due < y->due);
}

/* When the application and the timers will want what. */
static void schedule(struct event *events)
{
	static const enum event_kind day[EVENTS] = {EVENT_SHORT, EVENT_DRAIN, EVENT_LONG, EVENT_KEEPALIVE,
						    EVENT_DRAIN, EVENT_SHORT, EVENT_SHORT, EVENT_DRAIN};

	for (int i = 0; i < EVENTS; i++) {
		uint16_t late = 0;

		if (getrandom(&late, sizeof late, 0) < 0)
			late = (uint16_t)i;
		events[i].kind = day[i];
		events[i].due = (uint32_t)i * 4000 + late % 24000;
	}
	events[EVENTS - 1].due = UINT32_MAX;
	qsort(events, EVENTS, sizeof *events, by_due);
}

static int handle(struct link *l, const struct event *e)
{
	static const uint8_t picture[3 * PAYLOAD - 10] = {0xff, 0xd8, 0xff};

	switch (e->kind) {
	case EVENT_SHORT:
		return send_whole(l, "hello", 5);
	case EVENT_LONG:
		return send_fragments(l, picture, sizeof picture); /* @long */
	case EVENT_KEEPALIVE:
		return send_keepalive(l); /* @keepalive */
	case EVENT_DRAIN:
		drain(l); /* @drain */
	}
	return 0;
}

static void print_link(const struct link *l, unsigned refused)
{
	printf("%u sent, %u control, %u refused, at most %u packets, crc %08x\n", l->sent, l->control, refused,
	       l->pool.peak, l->crc);
	for (int i = 0; i < POOL_SIZE; i++)
		printf("%d: kind %u, offset %u\n", i, l->pool.packets[i].kind, l->pool.packets[i].offset);
}

int main(void)
{
	struct link *l = calloc(1, sizeof *l);
	struct event events[EVENTS];
	unsigned refused = 0;

	if (!l)
		return 1;
	pool_init(&l->pool);
	l->tail = &l->queue;
	schedule(events);
	for (int i = 0; i < EVENTS; i++)
		refused += handle(l, &events[i]) < 0; /* @handle */
	print_link(l, refused);
	free(l);
	return 0;
}
