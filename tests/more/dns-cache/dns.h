#ifndef DNS_H
#define DNS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#define NAME_SIZE 48
#define MAX_ADDRESSES 4

enum rr_type { RR_A, RR_MX, RR_TXT, RR_TYPES };

/* What a name stands for; which member counts is a matter of the type. */
struct rdata {
	uint32_t ttl_msec;
	uint32_t stored_msec;
	union {
		struct {
			uint8_t count;
			uint32_t addresses[MAX_ADDRESSES];
		} a;
		struct {
			uint16_t preference;
			char exchange[NAME_SIZE];
		} mx;
		char text[64];
	} u;
};

/* How a type of record is made from a zone's text and shown to a client. */
struct rr_ops {
	const char *mnemonic;
	int (*parse)(const char *text, struct rdata *data);
	size_t (*format)(const struct rdata *data, char *out, size_t room);
};

struct entry {
	struct entry *next;
	uint32_t hash;
	enum rr_type type;
	char name[NAME_SIZE];
	struct rdata *data; /* NULL when it has expired */
	atomic_uint hits, misses;
};

struct cache {
	pthread_mutex_t lock;
	unsigned used, expired;
	size_t mask;
	struct entry **buckets;
};

extern const struct rr_ops rr_table[RR_TYPES];

/* cache.c */
struct cache *cache_create(size_t buckets);
struct entry *cache_find(struct cache *c, const char *name, enum rr_type type);
void cache_store(struct cache *c, struct entry *e, struct rdata *data);
unsigned cache_sweep(struct cache *c, uint32_t now);
void cache_dump(struct cache *c);
void cache_destroy(struct cache *c);

/* zone.c */
struct rdata *zone_resolve(const char *name, enum rr_type type, uint32_t now);

/* clock.c */
uint32_t now_msec(void);
void idle_usec(unsigned least, unsigned most);

#endif
