/* A downloader that follows redirects. */
#include "http.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_HOPS 5
#define BATCH 3

struct job {
	enum method method;
	const char *url;
	const char *form;
};

struct totals {
	unsigned transfers, hops, errors;
	size_t received;
};

static const struct job jobs[] = {
	{GET, "http://a.example/old", NULL},
	{POST, "http://b.example/login", "user=joe&password=open sesame"},
	{GET, "http://a.example/index.html", NULL},
	{HEAD, "http://f.example/big.iso", NULL},
	{POST, "http://c.example/upload", "title=holiday photos"},
	{GET, "http://d.example/order", NULL},
	{GET, "http://g.example/feed.xml", NULL},
	{POST, "http://a.example/old", "comment=first"},
	{HEAD, "http://b.example/login", NULL},
	{POST, "http://d.example/order", "item=lamp&count=2"},
	{GET, "http://e.example/api", NULL},
	{POST, "http://h.example/search", "q=cats and dogs"},
	{POST, "http://e.example/api", "call=list users"},
	{GET, "http://i.example/robots.txt", NULL},
};

static struct request *request_new(const struct job *job)
{
	struct request *r = calloc(1, sizeof *r);

	r->method = job->method;
	r->form = job->form;
	snprintf(r->url, sizeof r->url, "%s", job->url);
	if (r->method == POST)
		r->body = body_from_form(r->form);
	return r;
}

static void request_free(struct request *r)
{
	free(r->body);
	free(r);
}

static int is_redirect(const struct response *answer)
{
	return answer->status >= 300 && answer->status < 400 && answer->location != NULL;
}

/* Prepares the request for its next hop; returns 0 when there were too many. */
static int follow(struct request *r, const struct response *answer)
{
	if (++r->hops > MAX_HOPS)
		return 0;
	snprintf(r->url, sizeof r->url, "%s", answer->location);
	if (r->method != POST)
		return 1;
	switch (answer->status) { /* @decide */
	case 301:
	case 302:
		r->method = GET; /* as browsers do */
		break;
	case 307:
	case 308:
		r->body = body_from_form(r->form); /* the same again, body and all */
		break;
	}
	return 1;
}

static void send_request(struct wire *w, struct request *r)
{
	write_head(w, r);
	if (r->method == POST) { /* @still-post */
		write_body(w, r); /* @write */
		body_release(r); /* @sent */
	}
}

static void transfer(struct wire *w, const struct job *job, struct totals *totals)
{
	struct request *r = request_new(job);
	struct response answer;

	for (;;) {
		send_request(w, r); /* @send */
		answer = server_answer(r);
		if (!is_redirect(&answer))
			break;
		totals->hops++;
		if (!follow(r, &answer)) { /* @follow */
			totals->errors++;
			break;
		}
	}
	totals->transfers++;
	totals->received += answer.length;
	request_free(r);
}

static void print_totals(const struct totals *totals, const struct wire *w)
{
	printf("%u transfers, %u redirects, %u errors, %zu bytes up, %zu down\n", totals->transfers, totals->hops,
	       totals->errors, w->total, totals->received);
}

/* Every run takes another part of the work. */
static size_t first_job(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (size_t)((uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u >> 40);
}

int main(void)
{
	size_t length = sizeof jobs / sizeof jobs[0], first = first_job();
	struct totals totals = {0};
	struct wire w = {.used = 0};

	for (size_t i = 0; i < BATCH; i++)
		transfer(&w, &jobs[(first + i) % length], &totals); /* @transfer */
	print_totals(&totals, &w);
	return 0;
}
