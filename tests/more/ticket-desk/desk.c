/*
 * A support desk: clerks take a number for each caller, write it to the journal and
 * keep the ticket in a table. C11 threads.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#define CLERKS 2
#define CALLERS 3
#define TABLE_SIZE 64

enum urgency { LOW, NORMAL, HIGH };

struct ticket {
	uint32_t number;
	unsigned used : 1;
	unsigned open : 1;
	unsigned urgency : 2;
	unsigned clerk : 4;
	unsigned minutes : 12;
	char caller[20];
};

struct journal {
	mtx_t lock;
	uint32_t next_number;
	size_t length;
	char text[4096];
};

struct desk {
	struct journal journal;
	mtx_t table_lock;
	struct ticket table[TABLE_SIZE];
	unsigned open_tickets;
};

struct clerk {
	struct desk *desk;
	unsigned id;
	thrd_t thread;
	unsigned handled;
};

static struct desk desk;
static thread_local uint32_t weather;

static uint32_t draw(void)
{
	if (!weather) {
		struct timespec t;

		timespec_get(&t, TIME_UTC);
		weather = ((uint32_t)t.tv_nsec ^ (uint32_t)((uintptr_t)&weather >> 4)) | 1;
		for (int i = 0; i < 8; i++)
			weather = weather * 1664525u + 1013904223u;
	}
	weather = weather * 1664525u + 1013904223u;
	return weather >> 8;
}

static void wait_usec(unsigned least, unsigned most)
{
	thrd_sleep(&(struct timespec){.tv_nsec = (long)(least + draw() % (most - least)) * 1000}, NULL);
}

/* Appends are whole: the journal has a lock for that. */
static void journal_append(struct journal *j, uint32_t number, unsigned clerk)
{
	char line[64];
	size_t length = (size_t)snprintf(line, sizeof line, "ticket %u, clerk %u\n", number, clerk);

	mtx_lock(&j->lock);
	if (j->length + length < sizeof j->text) {
		memcpy(j->text + j->length, line, length);
		j->length += length;
	}
	mtx_unlock(&j->lock);
	wait_usec(100, 700);
}

/* A number is given out when the journal has it. */
static uint32_t take_number(struct desk *d, unsigned clerk)
{
	uint32_t number = d->journal.next_number; /* @number-read */

	journal_append(&d->journal, number, clerk);
	d->journal.next_number = number + 1; /* @number-write */
	return number;
}

static struct ticket *find_slot(struct ticket *table, uint32_t number)
{
	uint32_t at = number * 2654435761u % TABLE_SIZE;

	while (table[at].used && table[at].number != number)
		at = (at + 1) % TABLE_SIZE;
	return &table[at];
}

static void file_ticket(struct desk *d, const struct ticket *t)
{
	struct ticket *slot;

	mtx_lock(&d->table_lock);
	slot = find_slot(d->table, t->number);
	if (slot->used) { /* @taken */
		fprintf(stderr, "ticket %u was given to %s and %s\n", t->number, slot->caller, t->caller);
		abort(); /* @fail */
	}
	*slot = *t;
	d->open_tickets++;
	mtx_unlock(&d->table_lock);
}

static int clerk_main(void *arg)
{
	struct clerk *c = arg;

	for (unsigned i = 0; i < CALLERS; i++) {
		struct ticket t = {.used = 1, .open = 1, .clerk = c->id, .urgency = i % 3 ? NORMAL : HIGH};

		wait_usec(500, 13000);
		snprintf(t.caller, sizeof t.caller, "caller %u-%u", c->id, i);
		t.number = take_number(c->desk, c->id); /* @take */
		t.minutes = draw() % 90;
		wait_usec(1200, 3000);
		file_ticket(c->desk, &t); /* @file */
		c->handled++;
	}
	return 0;
}

static void print_day(struct desk *d, const struct clerk *clerks)
{
	unsigned minutes = 0;

	for (size_t i = 0; i < TABLE_SIZE; i++)
		if (d->table[i].used)
			minutes += d->table[i].minutes;
	for (int i = 0; i < CLERKS; i++)
		printf("clerk %u handled %u callers\n", clerks[i].id, clerks[i].handled);
	printf("%u tickets, %u minutes, next is %u, journal of %zu bytes\n", d->open_tickets, minutes,
	       d->journal.next_number, d->journal.length);
}

int main(void)
{
	struct clerk clerks[CLERKS] = {0};

	mtx_init(&desk.journal.lock, mtx_plain);
	mtx_init(&desk.table_lock, mtx_plain);
	desk.journal.next_number = 1000;
	for (unsigned i = 0; i < CLERKS; i++) {
		clerks[i].desk = &desk;
		clerks[i].id = i;
		if (thrd_create(&clerks[i].thread, clerk_main, &clerks[i]) != thrd_success)
			return 1;
	}
	for (int i = 0; i < CLERKS; i++)
		thrd_join(clerks[i].thread, NULL);
	print_day(&desk, clerks);
	return 0;
}
