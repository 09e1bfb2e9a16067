/* A line that is too long for its buffer overwrites the frame; the check at the end of the function finds that. */
#include <stdio.h>
#include <string.h>

struct record {
	int id;
	char name[8];
};

static int spaces;

static void copy(char *to, const char *from)
{
	while (*from)
		*to++ = *from++; /* @write */
}

__attribute__((noinline)) static int count(const char *text, char wanted)
{
	int found = 0;

	for (; *text; text++)
		found += *text == wanted; /* @read */
	return found;
}

__attribute__((noinline)) static int handle(const char *text, int id)
{
	struct record record = {id, ""};
	char line[16];

	memset(line, 0, sizeof line); /* @clear */
	copy(line, text); /* @copy */
	spaces += count(line, ' '); /* @count */
	record.id += spaces;
	return record.id + line[0];
} /* @fail */

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : "a line that is much longer than sixteen bytes"; /* @text */
	int result = handle(text, argc);

	printf("%d\n", result);
	return 0;
}
