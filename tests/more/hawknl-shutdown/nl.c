/* A small network library: sockets in a table, each with a lock, and a lock for the library itself. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define MAX_SOCKETS 4
#define SESSIONS 3

struct nl_socket {
	pthread_mutex_t lock;
	unsigned number;
	unsigned long sent;
	char out[64];
	size_t pending;
};

struct nl_driver {
	const char *name;
	size_t (*write)(struct nl_socket *s, const char *data, size_t n);
	void (*flush)(struct nl_socket *s);
};

static struct {
	pthread_mutex_t lock;
	struct nl_socket *sockets[MAX_SOCKETS];
	unsigned opened, closed;
	int running;
	const struct nl_driver *driver;
} nl = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wire_delay(unsigned least, unsigned most)
{
	uint32_t r = 0;
	struct timespec t = {0, 0};

	(void)!getrandom(&r, sizeof r, 0);
	t.tv_nsec = (long)(least + r % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

static size_t udp_write(struct nl_socket *s, const char *data, size_t n)
{
	if (n > sizeof s->out - s->pending)
		n = sizeof s->out - s->pending;
	memcpy(s->out + s->pending, data, n);
	s->pending += n;
	return n;
}

static void udp_flush(struct nl_socket *s)
{
	if (s->pending == 0)
		return;
	wire_delay(200, 1500);
	s->sent += s->pending;
	s->pending = 0;
}

static const struct nl_driver udp = {"UDP", udp_write, udp_flush};

static struct nl_socket *nl_open(void)
{
	struct nl_socket *s = NULL;

	pthread_mutex_lock(&nl.lock);
	for (unsigned i = 0; nl.running && i < MAX_SOCKETS && !s; i++) {
		if (nl.sockets[i])
			continue;
		s = calloc(1, sizeof *s);
		pthread_mutex_init(&s->lock, NULL);
		s->number = i;
		nl.sockets[i] = s;
		nl.opened++;
	}
	pthread_mutex_unlock(&nl.lock);
	return s;
}

static size_t nl_write(struct nl_socket *s, const char *data, size_t n)
{
	pthread_mutex_lock(&s->lock);
	n = nl.driver->write(s, data, n);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void nl_close(struct nl_socket *s)
{
	pthread_mutex_lock(&s->lock); /* @close-has-socket */
	nl.driver->flush(s);
	pthread_mutex_lock(&nl.lock); /* @close-wants-library */
	if (nl.sockets[s->number] == s) {
		nl.sockets[s->number] = NULL;
		nl.closed++;
	}
	pthread_mutex_unlock(&nl.lock);
	pthread_mutex_unlock(&s->lock);
}

static void nl_init(const struct nl_driver *driver)
{
	nl.driver = driver;
	nl.running = 1;
}

static void nl_shutdown(void)
{
	pthread_mutex_lock(&nl.lock); /* @shutdown-has-library */
	nl.running = 0;
	for (unsigned i = 0; i < MAX_SOCKETS; i++) {
		struct nl_socket *s = nl.sockets[i];

		if (!s)
			continue;
		pthread_mutex_lock(&s->lock); /* @fail */
		nl.driver->flush(s);
		nl.sockets[i] = NULL;
		nl.closed++;
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&nl.lock);
}

static void play(struct nl_socket *s)
{
	char move[24];

	for (int i = 0; i < 2; i++) {
		int n = snprintf(move, sizeof move, "move %d of %u;", i, s->number);

		wire_delay(200, 4000);
		nl_write(s, move, (size_t)n);
	}
}

static void *client(void *arg)
{
	unsigned *played = arg; /* @client-arg */

	for (unsigned i = 0; i < SESSIONS; i++) {
		struct nl_socket *s = nl_open();

		if (!s)
			break;
		play(s);
		nl_close(s); /* @close */
		++*played;
	}
	return NULL;
}

static void print_statistics(unsigned played)
{
	pthread_mutex_lock(&nl.lock);
	printf("%s: %u opened, %u closed, %u played\n", nl.driver->name, nl.opened, nl.closed, played);
	pthread_mutex_unlock(&nl.lock);
}

int main(void)
{
	pthread_t thread;
	unsigned played = 0;

	nl_init(&udp);
	pthread_create(&thread, NULL, client, &played); /* @create */
	wire_delay(1000, 18000); /* the player leaves the game */
	nl_shutdown(); /* @shutdown */
	pthread_join(thread, NULL);
	print_statistics(played);
	return 0;
}
