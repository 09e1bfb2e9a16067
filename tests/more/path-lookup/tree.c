/*
 * The directory cache of a network file system. Lookups share the tree's lock; what the
 * server has changed is marked by a thread of its own and dropped when somebody comes across it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME_SIZE 20
#define LOOKUPS 6

struct dentry {
	char name[NAME_SIZE];
	struct dentry *parent, *children, *sibling;
	uint64_t size;
	bool stale;
};

struct tree {
	pthread_rwlock_t lock;
	struct dentry *root;
	unsigned entries;
	unsigned dropped;
};

struct lookup_result {
	int found;
	uint64_t size;
};

static struct tree tree;
static const char *const paths[] = {
	"home/ann/notes", "home/ann/todo", "home/ben/plan", "srv/data/2024", "srv/data/2025", "srv/www/index",
};
#define PATHS (sizeof paths / sizeof paths[0])

/* The server answers after so many microseconds. */
static void server_wait(unsigned least, unsigned most)
{
	static _Thread_local unsigned state;
	struct timespec t;

	if (!state) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		state = (unsigned)t.tv_nsec ^ (unsigned)((uintptr_t)&state >> 8);
	}
	usleep(least + (unsigned)rand_r(&state) % (most - least));
}

static struct dentry *find_child(const struct dentry *dir, const char *name, size_t length)
{
	for (struct dentry *d = dir->children; d; d = d->sibling)
		if (strncmp(d->name, name, length) == 0 && !d->name[length])
			return d;
	return NULL;
}

static struct dentry *add_child(struct dentry *dir, const char *name, size_t length)
{
	struct dentry *d = calloc(1, sizeof *d);

	if (!d || length >= NAME_SIZE)
		abort();
	memcpy(d->name, name, length);
	d->parent = dir;
	if (dir) {
		d->sibling = dir->children;
		dir->children = d;
	}
	tree.entries++;
	return d;
}

/* Fills the tree with one path; only done before there are threads. */
static void add_path(const char *path, uint64_t size)
{
	struct dentry *d = tree.root;

	for (;;) {
		size_t length = strcspn(path, "/");
		struct dentry *child = find_child(d, path, length);

		d = child ? child : add_child(d, path, length);
		if (!path[length])
			break;
		path += length + 1;
	}
	d->size = size;
}

static void free_below(struct dentry *d)
{
	while (d->children) {
		struct dentry *child = d->children;

		d->children = child->sibling;
		free_below(child);
		free(child);
		tree.entries--;
	}
}

/* Takes what the server has changed out of the tree, to be fetched anew. */
static void drop_stale(struct dentry *d)
{
	pthread_rwlock_wrlock(&tree.lock); /* @drop-wants */
	free_below(d);
	d->stale = false;
	tree.dropped++;
	pthread_rwlock_unlock(&tree.lock);
}

static struct lookup_result lookup(const char *path)
{
	struct lookup_result result = {0, 0};
	struct dentry *d = tree.root;

	pthread_rwlock_rdlock(&tree.lock); /* @lookup-has */
	for (;;) {
		size_t length = strcspn(path, "/");

		d = find_child(d, path, length);
		if (!d)
			break;
		if (d->stale) { /* @stale */
			drop_stale(d); /* @drop */
			break;
		}
		if (!path[length]) {
			result.found = 1;
			result.size = d->size;
			break;
		}
		path += length + 1;
	}
	pthread_rwlock_unlock(&tree.lock);
	return result;
}

/* The server tells which directory others have changed. */
static void *listener(void *arg)
{
	(void)arg;
	server_wait(2000, 75000);
	pthread_rwlock_wrlock(&tree.lock);
	for (struct dentry *d = tree.root->children; d; d = d->sibling)
		if (strcmp(d->name, "home") == 0)
			d->stale = true; /* @mark */
	pthread_rwlock_unlock(&tree.lock);
	return NULL;
}

static void *reader(void *arg)
{
	uint64_t *bytes = arg;

	for (unsigned i = 0; i < LOOKUPS; i++) {
		struct lookup_result r;

		server_wait(0, 5000);
		r = lookup(paths[(i * 5 + 2) % PATHS]); /* @lookup */
		*bytes += r.size;
	}
	return NULL;
}

static void print_tree(const struct dentry *d, int depth)
{
	for (; d; d = d->sibling) {
		printf("%*s%s%s\n", 2 * depth, "", d->name, d->stale ? " (stale)" : "");
		print_tree(d->children, depth + 1);
	}
}

int main(void)
{
	pthread_t readers[2], listening;
	uint64_t bytes[2] = {0, 0};

	pthread_rwlock_init(&tree.lock, NULL);
	tree.root = add_child(NULL, "", 0);
	for (size_t i = 0; i < PATHS; i++)
		add_path(paths[i], 100 + 17 * i);

	if (pthread_create(&listening, NULL, listener, NULL))
		return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&readers[i], NULL, reader, &bytes[i]))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	pthread_join(listening, NULL);

	print_tree(tree.root->children, 0);
	printf("%u entries, %u dropped, %lu bytes\n", tree.entries, tree.dropped, (unsigned long)(bytes[0] + bytes[1]));
	return 0;
}
