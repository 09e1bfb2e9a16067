/* The virtual machine that runs prepared statements. */
#include "vdbe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void grow(struct vdbe *v)
{
	v->room = v->room ? 2 * v->room : 8;
	v->ops = realloc(v->ops, (size_t)v->room * sizeof *v->ops); /* @grow */
}

/* Appends an instruction. Where it jumps to is for the caller to say. */
struct op *vdbe_add(struct vdbe *v, enum opcode code, int p1, const char *p4)
{
	struct op *op;

	if (v->count == v->room)
		grow(v);
	op = &v->ops[v->count++];
	op->code = code;
	op->p1 = p1;
	op->p2 = -1; /* @unknown */
	op->p4 = p4 ? strdup(p4) : NULL;
	return op;
}

/* Makes room for the next statement; the array of instructions is kept. */
void vdbe_reset(struct vdbe *v)
{
	for (int i = 0; i < v->count; i++)
		free(v->ops[i].p4);
	v->count = 0;
}

static int column_value(const struct op *op, int row)
{
	int value = row;

	for (const char *c = op->p4; *c; c++)
		value = value * 31 + *c;
	return value & 0xff;
}

/* Runs the program for one row; returns how many columns were given out. */
int vdbe_run(const struct vdbe *v, int row)
{
	int value = 0, flag = 0, columns = 0;

	for (int pc = 0; pc < v->count; pc++) {
		const struct op *op = &v->ops[pc];
		int target;

		switch (op->code) {
		case OP_OPEN:
			break;
		case OP_COLUMN:
			value = column_value(op, row);
			columns++;
			break;
		case OP_TEST:
			flag = value >= op->p1;
			break;
		case OP_IF_NOT:
			target = op->p2; /* @target */
			assert(target > pc); /* @fail */
			if (!flag)
				pc = target - 1;
			break;
		case OP_RESULT:
			columns += op->p1;
			break;
		case OP_HALT:
			return columns;
		}
	}
	return columns;
}

void vdbe_free(struct vdbe *v)
{
	vdbe_reset(v);
	free(v->ops);
	v->ops = NULL;
	v->room = 0;
}
