/* A web server's memory cache: an object is freed by the worker that drops the last reference. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORKERS 2
#define BODY_SIZE 16384

struct cache_object {
	char url[56];
	size_t length;
	atomic_int refcount;
	char body[BODY_SIZE];
};

struct request {
	struct cache_object *obj;
	uint32_t digest;
};

static atomic_int objects;
static atomic_size_t bytes_sent;

/* A request to the network takes from `least` to `most` microseconds. */
static void net_wait(unsigned least, unsigned most)
{
	static _Thread_local uint64_t noise;
	struct timespec t;

	if (noise == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		noise = ((uint64_t)t.tv_nsec << 20) ^ (uintptr_t)&noise;
	}
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	t.tv_sec = 0;
	t.tv_nsec = (long)(least + (noise >> 11) % (most - least)) * 1000;
	nanosleep(&t, NULL);
}

static struct cache_object *cache_insert(const char *url)
{
	struct cache_object *obj = calloc(1, sizeof *obj);

	snprintf(obj->url, sizeof obj->url, "%s", url);
	for (obj->length = 0; obj->length + 64 < BODY_SIZE;)
		obj->length += (size_t)snprintf(obj->body + obj->length, 64, "<a href=%s>\n", url);
	atomic_fetch_add(&objects, 1);
	return obj;
}

static void cleanup_cache_object(struct cache_object *obj)
{
	free(obj); /* @fail */
	atomic_fetch_sub(&objects, 1);
}

static void log_access(const struct cache_object *obj)
{
	atomic_fetch_add(&bytes_sent, obj->length);
	net_wait(100, 1400);
}

static void decrement_refcount(struct cache_object *obj)
{
	atomic_fetch_sub(&obj->refcount, 1); /* @drop */
	log_access(obj);
	if (atomic_load(&obj->refcount) == 0) /* @test */
		cleanup_cache_object(obj); /* @cleanup */
}

static void send_body(struct request *r)
{
	for (size_t i = 0; i < r->obj->length; i++)
		r->digest = r->digest * 16777619u ^ (unsigned char)r->obj->body[i];
	net_wait(500, 8000);
}

static void *worker(void *arg)
{
	struct request *r = arg; /* @arg */

	send_body(r);
	decrement_refcount(r->obj); /* @release */
	return NULL;
}

static void print_cache(const struct request *r)
{
	printf("%d objects left, %zu bytes sent, digest %08x\n", atomic_load(&objects),
	       atomic_load(&bytes_sent), r->digest);
}

int main(void)
{
	pthread_t workers[WORKERS];
	struct request requests[WORKERS];
	struct cache_object *obj = cache_insert("/index.html");

	for (int i = 0; i < WORKERS; i++) {
		atomic_fetch_add(&obj->refcount, 1); /* @count */
		requests[i] = (struct request){.obj = obj};
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, worker, &requests[i]); /* @create */
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	print_cache(&requests[0]);
	return 0;
}
