#ifndef SSL_H
#define SSL_H

#include <stddef.h>
#include <stdint.h>

enum message {
	MSG_END, MSG_CLIENT_HELLO, MSG_TICKET, MSG_KEY_EXCHANGE, MSG_CERTIFICATE, MSG_CHANGE_CIPHER, MSG_FINISHED, MSG_DATA,
};

enum state {ST_HELLO, ST_KEY_EXCHANGE, ST_FINISHED, ST_ESTABLISHED, ST_FAILED};

struct cipher {
	const char *name;
	unsigned key_bytes, iv_bytes;
};

struct session {
	uint8_t master[16];
	size_t master_length;
	const struct cipher *cipher;
	int resumed;
};

struct ssl {
	enum state state;
	struct session *session;
	uint8_t key_block[96];
	size_t key_block_length;
	int ciphered;
	unsigned long received;
};

struct peer_script {
	const char *name;
	enum message messages[12];
};

typedef enum state handler(struct ssl *s);

enum state change_cipher_spec(struct ssl *s);
void derive_master(struct session *session, const char *secret);

#endif
