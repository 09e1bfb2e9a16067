#include "http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the servers on the other side are set up to say. */
static const struct {
	const char *url;
	int status;
	const char *location;
} routes[] = {
	{"http://a.example/old", 301, "http://a.example/new"},
	{"http://b.example/login", 302, "http://b.example/home"},
	{"http://c.example/upload", 307, "http://c2.example/upload"},
	{"http://d.example/order", 303, "http://d.example/order/17"},
	{"http://e.example/api", 308, "http://e.example/api/v2"},
};

const char *method_name(enum method method)
{
	switch (method) {
	case GET:
		return "GET";
	case HEAD:
		return "HEAD";
	case POST:
		return "POST";
	}
	return "?";
}

/* Reads a form's fields and encodes them: spaces become plus signs. */
struct body *body_from_form(const char *form)
{
	struct body *body = calloc(1, sizeof *body);

	for (; *form && body->length + 1 < sizeof body->text; form++)
		body->text[body->length++] = *form == ' ' ? '+' : *form;
	return body;
}

/* An upload is read once; when it is on the wire there is no use for it. */
void body_release(struct request *r)
{
	free(r->body);
	r->body = NULL; /* @release */
}

static void put(struct wire *w, const char *text, size_t length)
{
	if (w->used + length > sizeof w->buffer)
		w->used = 0; /* flushed */
	memcpy(w->buffer + w->used, text, length);
	w->used += length;
	w->total += length;
}

void write_head(struct wire *w, const struct request *r)
{
	char line[128];
	int length = snprintf(line, sizeof line, "%s %s HTTP/1.1\r\n", method_name(r->method), r->url);

	put(w, line, (size_t)length);
}

void write_body(struct wire *w, const struct request *r)
{
	const struct body *body = r->body; /* @body */
	char line[48];
	int length = snprintf(line, sizeof line, "Content-Length: %zu\r\n\r\n", body->length); /* @fail */

	put(w, line, (size_t)length);
	put(w, body->text, body->length);
}

struct response server_answer(const struct request *r)
{
	struct response answer = {.status = 200, .location = NULL, .length = strlen(r->url) * 10};

	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
		if (strcmp(routes[i].url, r->url) == 0) {
			answer.status = routes[i].status;
			answer.location = routes[i].location;
			answer.length = 0;
		}
	return answer;
}
