/* An embedded database's pager: a writer commits pages, a checkpointer copies them to the file. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define PAGES 8
#define ROUNDS 2

struct page {
	unsigned version;
	int dirty;
};

static pthread_mutex_t db_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct page cache[PAGES];
static unsigned file_versions[PAGES];

/* The disk takes from `least` to `most` microseconds for a request. */
static void disk_wait(unsigned least, unsigned most)
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

static void write_journal(void)
{
	disk_wait(100, 800);
}

static void commit_transaction(unsigned version)
{
	pthread_mutex_lock(&db_mutex); /* @writer-has-db */
	write_journal();
	pthread_mutex_lock(&cache_mutex); /* @writer-wants-cache */
	for (unsigned i = version % 2; i < PAGES; i += 2) {
		cache[i].version = version;
		cache[i].dirty = 1;
	}
	pthread_mutex_unlock(&cache_mutex);
	pthread_mutex_unlock(&db_mutex);
}

static unsigned collect_dirty(unsigned *numbers)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PAGES; i++)
		if (cache[i].dirty)
			numbers[count++] = i;
	disk_wait(100, 800);
	return count;
}

static void checkpoint(void)
{
	unsigned numbers[PAGES], count;

	pthread_mutex_lock(&cache_mutex); /* @checkpointer-has-cache */
	count = collect_dirty(numbers);
	pthread_mutex_lock(&db_mutex); /* @checkpointer-wants-db */
	for (unsigned i = 0; i < count; i++) {
		file_versions[numbers[i]] = cache[numbers[i]].version;
		cache[numbers[i]].dirty = 0;
	}
	pthread_mutex_unlock(&db_mutex);
	pthread_mutex_unlock(&cache_mutex);
}

static void *writer(void *arg)
{
	(void)arg;
	for (unsigned i = 1; i <= ROUNDS; i++) {
		disk_wait(500, 14000);
		commit_transaction(i); /* @commit */
	}
	return NULL;
}

static void *checkpointer(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		disk_wait(500, 14000);
		checkpoint(); /* @checkpoint */
	}
	return NULL;
}

static void close_database(void)
{
	pthread_mutex_lock(&db_mutex);
	for (unsigned i = 0; i < PAGES; i++)
		if (cache[i].dirty)
			file_versions[i] = cache[i].version;
	printf("pages 0 and 1 at versions %u and %u\n", file_versions[0], file_versions[1]);
	pthread_mutex_unlock(&db_mutex);
}

int main(void)
{
	pthread_t threads[2];

	pthread_create(&threads[0], NULL, writer, NULL);
	pthread_create(&threads[1], NULL, checkpointer, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	close_database();
	return 0;
}
