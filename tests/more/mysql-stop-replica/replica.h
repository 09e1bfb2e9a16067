#ifndef REPLICA_H
#define REPLICA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum event_type { EVENT_BEGIN, EVENT_ROWS, EVENT_COMMIT };

struct event {
	enum event_type type;
	uint64_t position;
	unsigned rows;
};

/* What is known of the server that this one copies. */
struct master_info {
	pthread_mutex_t lock;
	uint64_t position;
	unsigned transactions;
	unsigned pending_rows, rows;
	atomic_int abort_replica;
	int running;
	pthread_t applier;
};

void wait_us(unsigned least, unsigned most);

void replica_start(struct master_info *mi);
void replica_stop(struct master_info *mi);
void replica_status(struct master_info *mi);

#endif
