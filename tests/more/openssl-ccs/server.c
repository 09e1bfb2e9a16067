/* The server's side of a handshake: a table says what each message does; peers come in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include "ssl.h"

#define CONNECTIONS 3

static const struct cipher ciphers[] = {{"AES128-SHA", 16, 16}, {"DES-CBC3-SHA", 24, 8}};

static enum state client_hello(struct ssl *s)
{
	if (s->state == ST_ESTABLISHED) {
		free(s->session);
		s->key_block_length = 0;
	}
	s->session = calloc(1, sizeof *s->session); /* @session */
	return ST_KEY_EXCHANGE;
}

/* The ticket holds a session that was agreed on before. */
static enum state ticket(struct ssl *s)
{
	s->session->cipher = &ciphers[1];
	s->session->resumed = 1;
	derive_master(s->session, "ticket");
	return ST_KEY_EXCHANGE;
}

static enum state certificate(struct ssl *s)
{
	return s->state;
}

static enum state key_exchange(struct ssl *s)
{
	s->session->cipher = &ciphers[0];
	derive_master(s->session, "premaster secret");
	return ST_KEY_EXCHANGE;
}

static enum state finished(struct ssl *s)
{
	return s->ciphered ? ST_ESTABLISHED : ST_FAILED;
}

static enum state data(struct ssl *s)
{
	s->received += 16;
	return s->state;
}

static const struct {
	handler *handle;
	unsigned allowed;
} messages[] = {
	[MSG_CLIENT_HELLO] = {client_hello, 1u << ST_HELLO | 1u << ST_ESTABLISHED},
	[MSG_TICKET] = {ticket, 1u << ST_KEY_EXCHANGE},
	[MSG_KEY_EXCHANGE] = {key_exchange, 1u << ST_KEY_EXCHANGE},
	[MSG_CERTIFICATE] = {certificate, 1u << ST_KEY_EXCHANGE},
	[MSG_CHANGE_CIPHER] = {change_cipher_spec, 1u << ST_KEY_EXCHANGE},
	[MSG_FINISHED] = {finished, 1u << ST_FINISHED},
	[MSG_DATA] = {data, 1u << ST_ESTABLISHED},
};

static const struct peer_script peers[] = {
	{"browser", {MSG_CLIENT_HELLO, MSG_KEY_EXCHANGE, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA, MSG_DATA}},
	{"mail", {MSG_CLIENT_HELLO, MSG_TICKET, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA}},
	{"scanner", {MSG_CLIENT_HELLO, MSG_FINISHED}},
	{"device", {MSG_CLIENT_HELLO, MSG_CERTIFICATE, MSG_KEY_EXCHANGE, MSG_CHANGE_CIPHER, MSG_FINISHED}},
	{"crawler", {MSG_CLIENT_HELLO, MSG_KEY_EXCHANGE, MSG_CHANGE_CIPHER, MSG_DATA}},
	{"proxy", {MSG_CLIENT_HELLO, MSG_KEY_EXCHANGE, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA,
	           MSG_CLIENT_HELLO, MSG_KEY_EXCHANGE, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA}},
	{"injected", {MSG_CLIENT_HELLO, MSG_CERTIFICATE, MSG_CHANGE_CIPHER, MSG_KEY_EXCHANGE, MSG_FINISHED, MSG_DATA}},
	{"monitor", {MSG_CLIENT_HELLO}},
	{"plain", {MSG_DATA, MSG_DATA}},
	{"phone", {MSG_CLIENT_HELLO, MSG_TICKET, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA, MSG_DATA, MSG_DATA}},
};

static void handle_message(struct ssl *s, enum message m)
{
	if (!(messages[m].allowed & 1u << s->state)) /* @allowed */
		s->state = ST_FAILED;
	else
		s->state = messages[m].handle(s); /* @handle */
}

static void serve(const struct peer_script *peer, unsigned *established)
{
	struct ssl s = {0};

	for (const enum message *m = peer->messages; *m != MSG_END && s.state != ST_FAILED; m++)
		handle_message(&s, *m); /* @message */
	*established += s.state == ST_ESTABLISHED;
	free(s.session);
}

static void print_counters(unsigned established)
{
	printf("%u of %d connections established\n", established, CONNECTIONS);
}

int main(void)
{
	uint16_t who[CONNECTIONS];
	unsigned established = 0;

	if (getrandom(who, sizeof who, 0) != sizeof who)
		return 1;
	for (int i = 0; i < CONNECTIONS; i++)
		serve(&peers[who[i] % (sizeof peers / sizeof peers[0])], &established);
	print_counters(established);
	return 0;
}
