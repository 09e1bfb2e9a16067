/* A server's console: an administrator starts the replica, and stops it after a while. */
#include "replica.h"

static struct master_info primary = {.lock = PTHREAD_MUTEX_INITIALIZER};

int main(void)
{
	replica_start(&primary); /* @start */
	wait_us(10000, 50000);
	replica_stop(&primary); /* @stop */
	replica_status(&primary);
	return 0;
}
