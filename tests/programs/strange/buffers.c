/* Buffers of a pool are used again: what a long message leaves in one, a control message finds there. Which buffer that is
 * depends on how many were taken before. */
#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

enum { BUFFERS = 24, PIECE = 48, EVENTS = 10 };

struct buffer {
	struct buffer *next;
	unsigned kind, offset;
	char data[PIECE];
};

static struct buffer *spare;

static struct buffer *take(unsigned kind)
{
	struct buffer *b = spare;

	spare = b->next;
	b->kind = kind;
	return b;
}

static void give_back(struct buffer *b)
{
	b->kind = 0;
	b->next = spare;
	spare = b;
}

static void send_short(void)
{
	struct buffer *b = take(1);

	b->offset = 0;
}

static void send_long(void)
{
	struct buffer *pieces[3];

	for (unsigned i = 0; i < 3; i++) {
		pieces[i] = take(2);
		pieces[i]->offset = (i + 1) * PIECE; /* set */
	}
	for (unsigned i = 0; i < 3; i++)
		give_back(pieces[i]);
}

static void send_control(void)
{
	struct buffer *b = take(3);

	assert(b->offset == 0); /* fail */
	give_back(b);
}

int main(void)
{
	struct buffer *all = calloc(BUFFERS, sizeof *all);
	unsigned char when = 0;

	for (int i = 0; i < BUFFERS; i++)
		give_back(&all[i]);
	if (getrandom(&when, 1, 0) != 1)
		return 2;
	for (int i = 0; i < EVENTS; i++) {
		if (i == when % EVENTS)
			send_long();
		else
			send_short();
	}
	send_control();
	free(all);
	return 0;
}
