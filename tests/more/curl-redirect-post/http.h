/* Requests, bodies and the answers of servers. */
#ifndef HTTP_H
#define HTTP_H

#include <stddef.h>

enum method { GET, HEAD, POST };

struct body {
	size_t length;
	char text[64];
};

struct request {
	enum method method;
	char url[64];
	struct body *body; /* what there is to upload; NULL for none, and once it is sent */
	const char *form;  /* where the body comes from */
	int hops;
};

struct response {
	int status;
	const char *location;
	size_t length;
};

struct wire {
	char buffer[256];
	size_t used, total;
};

const char *method_name(enum method method);
struct body *body_from_form(const char *form);
void body_release(struct request *r);
void write_head(struct wire *w, const struct request *r);
void write_body(struct wire *w, const struct request *r);
struct response server_answer(const struct request *r);

#endif
