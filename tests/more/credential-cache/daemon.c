/* A credential helper: clients open sessions for a host, store credentials, and ask for proofs. */
#include "store.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SESSIONS 3
#define REQUESTS 16

enum verb { STORE, OPEN, PROVE };

struct request {
	enum verb verb;
	char host[24];
	unsigned session;
};

struct session {
	int open;
	struct credential *cred;
	char challenge[16];
};

struct daemon {
	struct store store;
	struct session sessions[SESSIONS];
	unsigned proofs, refused;
};

static const char *const known_hosts[] = {
	"git.example", "mail.example", "wiki.example", "ci.example", "docs.example", "npm.example", "files.example",
	"chat.example", "build.example", "maps.example", "shop.example", "forum.example", "photos.example", "vpn.example",
};

static uint64_t noise;

static unsigned pick(unsigned below)
{
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	return (unsigned)((noise >> 11) % below);
}

/* What the clients of this moment ask for. */
static void read_request(struct request *r)
{
	unsigned kind = pick(10);

	r->verb = kind < 6 ? STORE : kind < 8 ? OPEN : PROVE;
	r->session = pick(SESSIONS);
	snprintf(r->host, sizeof r->host, "%s", known_hosts[pick(sizeof known_hosts / sizeof known_hosts[0])]);
}

static uint32_t mix_text(uint32_t digest, const char *text)
{
	while (*text) /* @fail */
		digest = (digest ^ (unsigned char)*text++) * 16777619u;
	return digest;
}

static uint32_t make_proof(const struct session *s)
{
	uint32_t digest = 2166136261u;
	const struct credential *c = s->cred; /* @session-cred */

	digest = mix_text(digest, s->challenge);
	digest = mix_text(digest, c->secret); /* @secret */
	return mix_text(digest, c->user);
}

static void handle_store(struct daemon *d, const struct request *r)
{
	char secret[40];

	snprintf(secret, sizeof secret, "%s-%08x", r->host, (unsigned)(noise >> 32));
	store_put(&d->store, r->host, "admin", secret); /* @put */
}

static void handle_open(struct daemon *d, const struct request *r)
{
	struct credential *c = store_find(&d->store, r->host);
	struct session *s = &d->sessions[r->session];

	if (!c) {
		d->refused++;
		return;
	}
	s->open = 1;
	s->cred = c; /* @keep */
	snprintf(s->challenge, sizeof s->challenge, "%08x", pick(1u << 30));
}

static void handle_prove(struct daemon *d, const struct request *r)
{
	struct session *s = &d->sessions[r->session];

	if (!s->open) {
		d->refused++;
		return;
	}
	if (make_proof(s) != 0)
		d->proofs++;
	s->open = 0;
}

static void handle(struct daemon *d, const struct request *r)
{
	switch (r->verb) {
	case STORE:
		handle_store(d, r);
		break;
	case OPEN:
		handle_open(d, r);
		break;
	case PROVE:
		handle_prove(d, r);
		break;
	}
}

static void print_state(const struct daemon *d)
{
	unsigned open = 0;

	for (size_t i = 0; i < SESSIONS; i++)
		open += d->sessions[i].open && d->sessions[i].cred != NULL;
	printf("%zu credentials in %zu, %u proofs, %u refused, %u sessions open\n", d->store.used, d->store.room,
	       d->proofs, d->refused, open);
}

int main(void)
{
	static struct daemon d;
	struct request r;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	noise = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u | 1;
	store_init(&d.store);
	for (int i = 0; i < 5; i++)
		store_put(&d.store, known_hosts[i], "admin", "initial");
	for (int i = 0; i < REQUESTS; i++) {
		read_request(&r);
		handle(&d, &r);
	}
	print_state(&d);
	store_done(&d.store);
	return 0;
}
