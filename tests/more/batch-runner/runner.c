/* Runs conversions side by side, one thread each, and collects what they made. */
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum job_state { JOB_NEW, JOB_RUNNING, JOB_DONE, JOB_FAILED };

struct buffer {
	char *text;
	size_t length, room;
};

struct job {
	const char *name;
	const char *input;
	void (*convert)(const char *from, struct buffer *to);
	struct buffer output;
	pthread_t thread;
	enum job_state state;
	unsigned millis;
};

struct runner {
	struct job *jobs;
	size_t count;
	struct buffer log;
};

static void put(struct buffer *b, const char *text, size_t length)
{
	if (b->length + length + 1 > b->room) {
		b->room = (b->length + length + 1) * 2;
		b->text = realloc(b->text, b->room);
		if (!b->text)
			abort();
	}
	memcpy(b->text + b->length, text, length);
	b->length += length;
	b->text[b->length] = '\0';
}

static void putf(struct buffer *b, const char *format, ...)
{
	char *line;
	va_list list;
	int length;

	va_start(list, format);
	length = vasprintf(&line, format, list);
	va_end(list);
	if (length < 0)
		abort();
	put(b, line, (size_t)length);
	free(line);
}

/* Disks are not always equally fast. */
static unsigned disk_busy(unsigned least_us, unsigned most_us)
{
	uint16_t dice[2] = {0, 0};
	struct timespec t = {0, 0};
	unsigned us;

	if (getrandom(dice, sizeof dice, 0) < 0)
		dice[0] = 1;
	us = least_us + (unsigned)(((uint64_t)(most_us - least_us) * dice[0]) >> 16);
	t.tv_nsec = (long)us * 1000;
	nanosleep(&t, NULL);
	return us / 1000;
}

static void to_upper(const char *from, struct buffer *to)
{
	for (; *from; from++) {
		char c = *from >= 'a' && *from <= 'z' ? (char)(*from - 32) : *from;

		put(to, &c, 1);
	}
}

static void to_hex(const char *from, struct buffer *to)
{
	for (; *from; from++)
		putf(to, "%02x", (unsigned char)*from);
}

static void to_runs(const char *from, struct buffer *to)
{
	while (*from) {
		size_t n = strspn(from, (char[]){*from, '\0'});

		putf(to, "%zu%c", n, *from);
		from += n;
	}
}

static void *run_job(void *arg)
{
	struct job *j = arg; /* @arg */

	j->convert(j->input, &j->output);
	j->millis = disk_busy(500, 8000);
	j->state = j->output.length ? JOB_DONE : JOB_FAILED; /* @done */
	return NULL;
}

static int job_start(struct runner *r, struct job *j)
{
	int error = pthread_create(&j->thread, NULL, run_job, j); /* @spawn */

	if (error) {
		j->state = JOB_FAILED;
		return error;
	}
	putf(&r->log, "started %s\n", j->name);
	disk_busy(100, 1700);
	j->state = JOB_RUNNING; /* @running */
	return 0;
}

static size_t collect(struct runner *r)
{
	size_t total = 0;

	for (size_t i = 0; i < r->count; i++) {
		struct job *j = &r->jobs[i];

		pthread_join(j->thread, NULL);
		assert(j->state == JOB_DONE || j->state == JOB_FAILED); /* @fail */
		total += j->output.length;
		putf(&r->log, "%s took %u ms\n", j->name, j->millis);
	}
	return total;
}

static const char *state_name(enum job_state state)
{
	static const char *const names[] = {"new", "running", "done", "failed"};

	return names[state];
}

static void print_log(const struct runner *r, size_t total)
{
	fputs(r->log.text, stdout);
	for (size_t i = 0; i < r->count; i++)
		printf("%-8s %s: %s\n", r->jobs[i].name, state_name(r->jobs[i].state), r->jobs[i].output.text);
	printf("%zu bytes\n", total);
}

static void runner_free(struct runner *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->jobs[i].output.text);
	free(r->jobs);
	free(r->log.text);
}

int main(void)
{
	static const struct job plan[] = {
		{.name = "upper", .input = "the quick brown fox", .convert = to_upper},
		{.name = "hex", .input = "jumps over", .convert = to_hex},
		{.name = "runs", .input = "aaabbbbccd", .convert = to_runs},
	};
	struct runner r = {.count = sizeof plan / sizeof plan[0]};
	size_t total;

	r.jobs = malloc(sizeof plan);
	if (!r.jobs)
		return 1;
	memcpy(r.jobs, plan, sizeof plan);
	for (size_t i = 0; i < r.count; i++)
		if (job_start(&r, &r.jobs[i])) /* @start */
			return 1;
	total = collect(&r); /* @collect */
	print_log(&r, total);
	runner_free(&r);
	return 0;
}
