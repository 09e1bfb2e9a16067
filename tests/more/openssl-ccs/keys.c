/* What a handshake agreed on is made into keys. */
#include <string.h>
#include "ssl.h"

static unsigned block_length(const struct cipher *c)
{
	return 2 * (c->key_bytes + c->iv_bytes); /* @fail */
}

void derive_master(struct session *session, const char *secret)
{
	unsigned h = 5381;

	for (size_t i = 0; i < sizeof session->master; i++) {
		h = h * 33 ^ (unsigned char)secret[i % strlen(secret)];
		session->master[i] = (uint8_t)h;
	}
	session->master_length = sizeof session->master;
}

static void setup_key_block(struct ssl *s)
{
	const struct cipher *c = s->session->cipher; /* @cipher-read */
	unsigned length = block_length(c); /* @block-length */

	for (unsigned i = 0; i < length && i < sizeof s->key_block; i++)
		s->key_block[i] = (uint8_t)(s->session->master[i % 16] ^ i);
	s->key_block_length = length;
}

enum state change_cipher_spec(struct ssl *s)
{
	if (s->key_block_length == 0)
		setup_key_block(s); /* @setup */
	s->ciphered = 1;
	return s->session->resumed && s->state == ST_HELLO ? ST_ESTABLISHED : ST_FINISHED;
}
