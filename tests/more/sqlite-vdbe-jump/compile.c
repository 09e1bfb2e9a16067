/* Compiles statements such as "select a b c" or "select a where b c d e". */
#include "vdbe.h"

#include <stdio.h>
#include <string.h>

/* Takes the next word of the statement; returns whether there is one. */
static int next_word(const char **sql, char *word, size_t room)
{
	size_t length;

	*sql += strspn(*sql, " \n");
	length = strcspn(*sql, " \n");
	if (length == 0 || length >= room)
		return 0;
	memcpy(word, *sql, length);
	word[length] = '\0';
	*sql += length;
	return 1;
}

static int code_columns(struct vdbe *v, const char **sql)
{
	char word[32];
	int columns = 0;

	while (next_word(sql, word, sizeof word) && strcmp(word, "where") != 0) {
		vdbe_add(v, OP_COLUMN, columns++, word);
	}
	return columns;
}

/* The columns after `where NAME` are given out only where NAME holds. */
static void code_where(struct vdbe *v, const char **sql)
{
	char word[32];
	struct op *jump;

	if (!next_word(sql, word, sizeof word))
		return;
	vdbe_add(v, OP_COLUMN, 0, word);
	vdbe_add(v, OP_TEST, 1, NULL);
	jump = vdbe_add(v, OP_IF_NOT, 0, NULL); /* @jump */
	code_columns(v, sql); /* @body */
	jump->p2 = v->count; /* @patch */
}

void compile(struct vdbe *v, const char *sql)
{
	char word[32];
	int columns;

	vdbe_reset(v);
	if (!next_word(&sql, word, sizeof word))
		return;
	vdbe_add(v, OP_OPEN, 0, word);
	columns = code_columns(v, &sql);
	if (*sql)
		code_where(v, &sql); /* @where */
	vdbe_add(v, OP_RESULT, columns, NULL);
	vdbe_add(v, OP_HALT, 0, NULL);
}
