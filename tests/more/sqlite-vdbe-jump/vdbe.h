#ifndef VDBE_H
#define VDBE_H

#include <stddef.h>

enum opcode { OP_OPEN, OP_COLUMN, OP_TEST, OP_IF_NOT, OP_RESULT, OP_HALT };

struct op {
	enum opcode code;
	int p1;
	int p2;
	char *p4;
};

/* A prepared statement: a program for the virtual machine. */
struct vdbe {
	struct op *ops;
	int count, room;
};

struct op *vdbe_add(struct vdbe *v, enum opcode code, int p1, const char *p4);
void vdbe_reset(struct vdbe *v);
int vdbe_run(const struct vdbe *v, int row);
void vdbe_free(struct vdbe *v);

void compile(struct vdbe *v, const char *sql);

#endif
