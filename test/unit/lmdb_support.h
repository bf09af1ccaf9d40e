/*
 * lmdb_support.h
 *	  What the tests of the embedded store share: a directory that goes away again, a host with a wall clock that can
 *	  be set, and operations that wait for their answer.
 *
 * Everything goes through the client, as in a backend, so a turn, a batch and a retry are real.
 */
#ifndef LMDB_SUPPORT_H
#define LMDB_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/scan.h"
#include "stores/lmdb/environment.h"
#include "stores/lmdb/lmdb.h"
#include "stores/lmdb/record.h"

#include "test.h"

#define UNUSED __attribute__((unused))

#define CHECK_STATUS(expected, actual) \
	do \
	{ \
		ZarisStatus status_expected = (expected); \
		ZarisStatus status_actual = (actual); \
		if (status_expected != status_actual && test_complain(__FILE__, __LINE__)) \
			printf("%s is %s, not %s\n", #actual, zaris_status_name(status_actual), \
				   zaris_status_name(status_expected)); \
	} while (0)

/* a directory of our own */

static char test_directory[256];

static UNUSED void
remove_tree(const char *path)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	if (system(command) != 0)
		fprintf(stderr, "could not remove %s\n", path);
}

static UNUSED const char *
make_test_directory(void)
{
	const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";

	snprintf(test_directory, sizeof(test_directory), "%s/zaris-lmdb-XXXXXX", base);
	if (mkdtemp(test_directory) == NULL)
	{
		perror("mkdtemp");
		exit(1);
	}
	return test_directory;
}

static UNUSED char *
path_of(const char *directory, const char *file)
{
	static char path[4][512];
	static int	next = 0;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", directory, file);
	return path[next];
}

/* host */

static int64_t test_wall_ms = INT64_C(1700000000000);

static uint64_t
test_now_us(void *context)
{
	return zaris_loop_now_us();
}

static int64_t
test_wall(void *context)
{
	return test_wall_ms;
}

static uint64_t
test_random(void *context)
{
	static uint64_t state = UINT64_C(88172645463325252);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static const ZarisHost test_host = {NULL, test_now_us, test_wall, test_random, NULL};

/* a store */

typedef struct Store
{
	ZarisLoop	*loop;
	ZarisClient *client;
	ZarisBatch	*batch;
	const char	*problem;
} Store;

static uint64_t test_open_timeout_us = 5000000;

/* False: store->problem says why. */
static UNUSED bool
open_store(Store *store, const char *directory, const char *name)
{
	ZarisClientOptions	   options = {0};
	const ZarisRetryPolicy policy = {1, 1000, false};

	memset(store, 0, sizeof(*store));
	options.url.scheme = ZARIS_SCHEME_INPROC;
	snprintf(options.url.name, sizeof(options.url.name), "%s", name);
	options.directory = directory;
	options.connect_timeout_us = test_open_timeout_us;
	options.map_refresh_wait_us = 5000000;
	store->loop = zaris_loop_create();
	store->client = zaris_client_open(&zaris_lmdb_driver, &options, &test_host, store->loop, &store->problem);
	if (store->client == NULL)
	{
		zaris_loop_destroy(store->loop);
		store->loop = NULL;
		return false;
	}

	/* One attempt: what the driver says is what the test sees. */
	zaris_client_set_policy(store->client, &policy);
	store->batch = zaris_batch_create(store->client);
	return true;
}

static UNUSED void
must_open(Store *store, const char *directory, const char *name)
{
	if (!open_store(store, directory, name))
	{
		fprintf(stderr, "could not open: %s\n", store->problem);
		exit(1);
	}
}

static UNUSED void
close_store(Store *store)
{
	zaris_batch_free(store->batch);
	zaris_client_close(store->client);
	zaris_loop_destroy(store->loop);
	memset(store, 0, sizeof(*store));
}

static UNUSED void
wait_store(Store *store)
{
	for (;;)
	{
		struct pollfd waited = {zaris_loop_fd(store->loop), POLLIN, 0};
		int			  timeout;

		zaris_client_turn(store->client);
		if (zaris_batch_is_done(store->batch))
			return;
		timeout = zaris_client_timeout_ms(store->client);
		if (timeout != 0)
			(void) poll(&waited, 1, timeout);
	}
}

static UNUSED ZarisBytes
bytes(const char *text)
{
	return (ZarisBytes){text, strlen(text)};
}

static UNUSED bool
same_bytes(ZarisBytes a, ZarisBytes b)
{
	return (a.data == NULL) == (b.data == NULL) && a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static UNUSED ZarisOperation *
new_operation(Store *store, ZarisOperationKind kind, ZarisBytes key)
{
	ZarisOperation *operation = zaris_batch_operation(store->batch);

	operation->kind = kind;
	operation->key = key;
	operation->precondition = ZARIS_IF_ABSENT;
	return operation;
}

static UNUSED ZarisOperation *
run(Store *store, ZarisOperation *operation)
{
	zaris_batch_submit(store->batch, operation);
	wait_store(store);
	return operation;
}

/* The usual operations, each waited for. What they return lives until the next reset. */

static UNUSED ZarisOperation *
get(Store *store, ZarisBytes key)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_GET, key);

	operation->want = ZARIS_WANT_VALUE | ZARIS_WANT_VERSION | ZARIS_WANT_EXPIRY;
	return run(store, operation);
}

static UNUSED ZarisOperation *
put_if(Store *store, ZarisBytes key, ZarisBytes value, ZarisPrecondition precondition, int64_t version)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, key);

	operation->value = value;
	operation->precondition = precondition;
	operation->match_version = version;
	return run(store, operation);
}

static UNUSED ZarisOperation *
put(Store *store, ZarisBytes key, ZarisBytes value)
{
	return put_if(store, key, value, ZARIS_IF_ABSENT, 0);
}

static UNUSED ZarisOperation *
delete_if(Store *store, ZarisBytes key, ZarisPrecondition precondition, int64_t version)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_DELETE, key);

	operation->precondition = precondition;
	operation->match_version = version;
	return run(store, operation);
}

static UNUSED ZarisOperation *
page(Store *store, const ZarisPageRequest *request)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_SCAN_PAGE, (ZarisBytes){NULL, 0});

	/* A node is addressed by its id, which is known once the map is. */
	while (!zaris_client_want_map(store->client, 0))
	{
		zaris_client_turn(store->client);
		usleep(1000);
	}
	operation->node = 0;
	operation->scan = request;
	return run(store, operation);
}

/* Wait for a child; its exit status, or -signal. */
static UNUSED int
wait_child(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
	{
		if (errno != EINTR)
			return -1000;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#endif /* LMDB_SUPPORT_H */
