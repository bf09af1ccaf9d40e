/*
 * lmdb.c
 *	  The driver of the embedded store: a queue of operations, run in groups (lmdb.h).
 *
 *		entries:	| answered, to be told | queued ...                     |
 *					 start ... start + done						end
 *
 * submit appends at the end.  A group is run from the start on, which gives its entries their answers; then they are
 * told one by one.  Whoever is told may submit more, or detach a batch: entries are found by their index, and a
 * detached one just has no operation any more.
 */
#include "stores/lmdb/lmdb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/check.h"
#include "client/client.h"
#include "stores/lmdb/files.h"
#include "stores/lmdb/request.h"

#define FIRST_ROOM	  256
#define TURN_US		  UINT64_C(10000) /* a flush begins no new group after so much time */
#define OPEN_RETRY_US UINT64_C(5000)
#define MAX_REDONE	  64 /* growing doubles the map, so this is never reached by growing alone */

static const char bad_name[] = "the name of an embedded store has 1 to 63 letters, digits, hyphens and underscores";

typedef struct Entry
{
	ZarisOperation	  *operation; /* NULL: detached */
	struct ZarisBatch *batch;
	ZarisAnswer		   answer;
} Entry;

struct ZarisStore
{
	const ZarisHost		   *host;
	ZarisLoop			   *loop;
	ZarisClient			   *client;
	const ZarisStoreEvents *events;
	char				   *directory;
	char				   *name;
	uint64_t				open_timeout_us;

	ZarisLmdbEnvironment *environment; /* NULL: not opened yet, another process was just at it */
	ZarisTimer			 *map_timer;
	uint64_t			  map_deadline_us;

	Entry	   *entries;
	size_t		room;
	size_t		start;
	size_t		done;
	size_t		end;
	ZarisTimer *queue_timer; /* set while a flush left something behind */
	bool		running;	 /* inside a group or telling its answers */

	ZarisLmdbScratch scratch;
	ZarisLmdbProblem problem; /* of the group that was run last: answers point to its text */
};

/* running a group */

/* One pass over a group within one transaction. What a guarded call needs lies here. */
typedef struct Pass
{
	ZarisStore			*store;
	ZarisLmdbTransaction t;
	size_t				 first;
	size_t				 n;
	bool				 write;
	bool				 rescue;  /* only the reads of a group whose writes failed and have their answers */
	uint64_t			 stop_us; /* a reading pass ends early at this time; 0 = never */
	size_t				 ran;	  /* entries that have their answers */
	size_t				 written; /* bytes */
} Pass;

static bool
is_write(const ZarisOperation *operation)
{
	return operation->kind == ZARIS_OP_PUT || operation->kind == ZARIS_OP_DELETE;
}

static int
run_one(Pass *pass, Entry *entry)
{
	ZarisOperation *operation = entry->operation;

	switch (operation->kind)
	{
		case ZARIS_OP_GET:
			return zaris_lmdb_get(&pass->t, operation, &entry->answer);
		case ZARIS_OP_PUT:
		case ZARIS_OP_DELETE:
			pass->written += zaris_lmdb_write_size(operation);
			return zaris_lmdb_write(&pass->t, operation, &entry->answer);
		case ZARIS_OP_SCAN_PAGE:
			return zaris_lmdb_page(&pass->t, operation, &entry->answer);
		case ZARIS_OP_LIST_SLOTS:
		case ZARIS_OP_NODE_STATE:
			/* Nobody asks a store that is not partitioned for its slots. */
			break;
	}
	zaris_lmdb_answer(&entry->answer, ZARIS_INVALID_REQUEST, "an embedded store has no slots");
	return 0;
}

static int
pass_work(void *argument)
{
	Pass *pass = argument;
	int	  code = 0;

	for (; pass->ran < pass->n; pass->ran++)
	{
		Entry *entry = &pass->store->entries[pass->first + pass->ran];

		if (entry->operation == NULL || (pass->rescue && is_write(entry->operation)))
			continue;
		if (pass->stop_us != 0 && pass->ran > 0 && zaris_loop_now_us() >= pass->stop_us)
			return 0;
		code = run_one(pass, entry);
		if (code != 0)
			return code;
	}
	if (pass->write && pass->t.applied > 0)
		code = zaris_lmdb_write_end(&pass->t);
	return code;
}

/* The same answer, store->problem, for the first n entries of the queue. */
static void
answer_all(ZarisStore *store, size_t n, ZarisOutcome outcome)
{
	for (size_t i = 0; i < n; i++)
	{
		Entry *entry = &store->entries[store->start + i];

		if (entry->operation == NULL)
			continue;
		zaris_lmdb_answer(&entry->answer, store->problem.status, store->problem.text);
		entry->answer.outcome = outcome;
		entry->operation->has_version = false;
	}
}

/* After a failed assertion of LMDB: what it holds is put away, and the file is opened anew by the next one. */
static void
clear_away(Pass *pass)
{
	/* A writing transaction closes its cursors itself. */
	if (pass->t.cursor != NULL && !pass->write)
		mdb_cursor_close(pass->t.cursor);
	pass->t.cursor = NULL;
	zaris_lmdb_abort(pass->store->environment, pass->write, pass->t.txn);
	zaris_lmdb_break_off(pass->store->environment);
}

typedef enum PassResult
{
	PASS_DONE,	   /* .ran entries have their answers */
	PASS_FULL,	   /* nothing happened: the map must grow */
	PASS_TOO_MANY, /* nothing happened: too much for one transaction */
	PASS_FAILED,   /* nothing happened, store->problem says why */
	PASS_IN_DOUBT  /* perhaps it happened, store->problem says why it is not known */
} PassResult;

static PassResult
judge_failure(ZarisStore *store, int code, bool in_doubt)
{
	if (in_doubt)
	{
		zaris_lmdb_problem_code(&store->problem, code, "could not make a write to embedded store \"%s\" durable",
								store->name);
		store->problem.status = ZARIS_TRANSPORT_ERROR;
		return PASS_IN_DOUBT;
	}
	if (code == MDB_MAP_FULL)
		return PASS_FULL;
	if (code == MDB_TXN_FULL)
		return PASS_TOO_MANY;
	zaris_lmdb_problem_code(&store->problem, code, "could not use embedded store \"%s\"", store->name);
	return PASS_FAILED;
}

/* A commit can fail an assertion as well: freed pages are looked through there. */
typedef struct CommitWork
{
	Pass *pass;
	bool  in_doubt;
} CommitWork;

static int
commit_work(void *argument)
{
	CommitWork *work = argument;

	return zaris_lmdb_commit(work->pass->store->environment, work->pass->t.txn, &work->in_doubt);
}

static PassResult
run_pass(Pass *pass)
{
	ZarisStore *store = pass->store;
	CommitWork	commit = {pass, false};
	bool		asserted;
	int			code;

	pass->t.environment = store->environment;
	pass->t.now_ms = store->host->wall_ms(store->host->context);
	pass->t.scratch = &store->scratch;
	if (!zaris_lmdb_begin(store->environment, pass->write, &pass->t.txn, &store->problem))
		return PASS_FAILED;

	code = zaris_lmdb_guarded(pass_work, pass, &asserted);
	if (code == 0 && pass->t.applied > 0)
		code = zaris_lmdb_guarded(commit_work, &commit, &asserted);
	else if (!asserted)
		zaris_lmdb_abort(store->environment, pass->write, pass->t.txn);
	if (asserted)
		clear_away(pass);
	return code == 0 ? PASS_DONE : judge_failure(store, code, commit.in_doubt);
}

/*
 * The writes of a group failed, and nothing of it was applied.  Reads that stood between them have nothing to do with
 * that (a full disk can still be read), so they are run by themselves.
 */
static void
fail_group(ZarisStore *store, size_t n, bool write)
{
	Pass pass = {.store = store, .first = store->start, .n = n, .rescue = true};
	bool has_reads = false;

	answer_all(store, n, ZARIS_OUTCOME_REJECTED);
	for (size_t i = 0; i < n; i++)
	{
		const ZarisOperation *operation = store->entries[store->start + i].operation;

		has_reads = has_reads || (operation != NULL && !is_write(operation));
	}
	if (write && has_reads && store->environment->env != NULL)
		(void) run_pass(&pass);
}

/*
 * Run the first n entries of the queue, in order.  Returns how many of them have answers now: at least one.
 *
 * A transaction that found the map full, or too small a limit, is done again as a whole: nothing of it counted.
 */
static size_t
run_group(ZarisStore *store, size_t n, bool write, uint64_t stop_us)
{
	for (int i = 0; i < MAX_REDONE; i++)
	{
		Pass pass = {.store = store, .first = store->start, .n = n, .write = write, .stop_us = stop_us};
		int	 code;

		switch (run_pass(&pass))
		{
			case PASS_DONE:
				return pass.ran;
			case PASS_FULL:
				code = zaris_lmdb_grow(store->environment, pass.written);
				if (code == 0)
					continue;
				zaris_lmdb_problem_code(&store->problem, code, "could not enlarge the map of embedded store \"%s\"",
										store->name);
				break;
			case PASS_TOO_MANY:
				if (n > 1)
				{
					n /= 2;
					continue;
				}
				zaris_lmdb_problem_code(&store->problem, MDB_TXN_FULL, "could not write to embedded store \"%s\"",
										store->name);
				break;
			case PASS_FAILED:
				break;
			case PASS_IN_DOUBT:
				answer_all(store, n, ZARIS_OUTCOME_IN_DOUBT);
				return n;
		}
		fail_group(store, n, write);
		return n;
	}
	zaris_lmdb_problem(&store->problem, ZARIS_UNAVAILABLE, "embedded store \"%s\" found no room in many tries",
					   store->name);
	fail_group(store, n, write);
	return n;
}

/*
 * How many entries make the next group, and whether it writes.  Reads that stand before the first write do not wait for
 * the writers' lock; reads behind a write must see it, so they go along.
 */
static size_t
next_group(const ZarisStore *store, bool *write)
{
	size_t bytes = 0;
	size_t n = 0;

	*write = false;
	for (size_t at = store->start; at < store->end; at++, n++)
	{
		const ZarisOperation *operation = store->entries[at].operation;

		if (operation == NULL)
			continue;
		if (!is_write(operation))
			continue;
		if (!*write && n > 0)
			break;
		*write = true;
		bytes += zaris_lmdb_write_size(operation);
		if (bytes >= zaris_lmdb_tuning.group_bytes)
			return n + 1;
	}
	return n;
}

/* telling */

/* Each answer once. The callback may change the queue, so nothing is kept across it but the store. */
static void
tell(ZarisStore *store)
{
	while (store->done > 0)
	{
		Entry entry = store->entries[store->start];

		store->start++;
		store->done--;
		if (entry.operation != NULL)
			store->events->answered(store->client, entry.operation, &entry.answer);
	}
	if (store->start == store->end)
		store->start = store->end = 0;
}

/* At least one group, and others as long as the turn lasts. */
static void
run_queue(ZarisStore *store, size_t most)
{
	uint64_t stop_us = zaris_loop_now_us() + TURN_US;

	if (store->running)
		return;
	store->running = true;
	while (most > 0 && store->start < store->end)
	{
		bool   write;
		size_t n = next_group(store, &write);

		if (n > most)
			n = most;
		store->done = run_group(store, n, write, write ? 0 : stop_us);
		ZARIS_ASSERT(store->done > 0);
		most -= store->done;
		tell(store);
		if (zaris_loop_now_us() >= stop_us)
			break;
	}
	zaris_lmdb_scratch_trim(&store->scratch);
	store->running = false;

	/* The loop must turn at once: what is left, and what was submitted meanwhile, goes on there. */
	if (store->start < store->end)
		zaris_timer_set(store->queue_timer, zaris_loop_now_us());
}

static void
on_queue_timer(void *context)
{
	ZarisStore *store = context;

	run_queue(store, store->end - store->start);
}

/* the map: one node, one slot */

static void
tell_map(ZarisStore *store, ZarisStatus status, const char *text)
{
	ZarisTopology *topology = NULL;
	char		   host[ZARIS_HOST_LEN];

	if (status == ZARIS_OK)
	{
		topology = malloc(sizeof(*topology));
		if (topology == NULL)
			status = ZARIS_NO_MEMORY;
	}
	if (topology != NULL)
	{
		int node;

		snprintf(host, sizeof(host), "inproc/%s", store->name);
		zaris_topology_reset(topology, 1);
		node = zaris_topology_add_node(topology, host, strlen(host), 0);
		topology->nodes[node].role = ZARIS_ROLE_PRIMARY;
		topology->nodes[node].health = ZARIS_HEALTH_ONLINE;
		zaris_topology_assign(topology, 0, 0, node);
	}
	store->events->map_fetched(store->client, status, topology, text);
	free(topology);
}

/*
 * Nothing is known of the store before its file is open.  While another process opens or removes one in the same
 * directory that cannot be done; it takes milliseconds, and is tried again.
 */
static void
on_map_timer(void *context)
{
	ZarisStore *store = context;
	uint64_t	now = zaris_loop_now_us();

	if (store->environment == NULL)
		store->environment = zaris_lmdb_acquire(store->directory, store->name, &store->problem);
	if (store->environment != NULL)
		tell_map(store, ZARIS_OK, NULL);
	else if (store->problem.status != ZARIS_UNAVAILABLE || now >= store->map_deadline_us)
		tell_map(store, store->problem.status, store->problem.text);
	else
		zaris_timer_set(store->map_timer, now + OPEN_RETRY_US);
}

static void
lmdb_fetch_map(ZarisStore *store, const ZarisAddress *from)
{
	uint64_t now = zaris_loop_now_us();

	store->map_deadline_us = now + store->open_timeout_us;
	zaris_timer_set(store->map_timer, now);
}

static int
lmdb_slot(const char *key, size_t len)
{
	return 0;
}

/* opening and closing */

static void
lmdb_close(ZarisStore *store)
{
	if (store == NULL)
		return;
	zaris_timer_destroy(store->map_timer);
	zaris_timer_destroy(store->queue_timer);
	zaris_lmdb_release(store->environment);
	zaris_lmdb_scratch_free(&store->scratch);
	free(store->entries);
	free(store->directory);
	free(store->name);
	free(store);
}

static ZarisStore *
new_store(const ZarisStoreConfig *config)
{
	ZarisStore *store = calloc(1, sizeof(*store));

	if (store == NULL)
		return NULL;
	store->host = config->host;
	store->loop = config->loop;
	store->client = config->client;
	store->events = config->events;
	store->open_timeout_us = config->connect_timeout_us;
	store->directory = strdup(config->directory);
	store->name = strdup(config->url->name);
	store->map_timer = zaris_timer_create(config->loop, on_map_timer, store);
	store->queue_timer = zaris_timer_create(config->loop, on_queue_timer, store);
	if (store->directory != NULL && store->name != NULL && store->map_timer != NULL && store->queue_timer != NULL)
		return store;
	lmdb_close(store);
	return NULL;
}

static ZarisStatus
refuse(ZarisLmdbProblem *problem)
{
	zaris_lmdb_sentence(problem);
	return problem->status;
}

static ZarisStatus
lmdb_open(const ZarisStoreConfig *config, ZarisStore **result, const char **problem)
{
	static ZarisLmdbProblem last; /* its text must outlive the store that did not come to be */
	ZarisStore			   *store;

	*result = NULL;
	*problem = last.text;
	last.status = ZARIS_OK;
	if (config->directory == NULL || config->directory[0] != '/')
		zaris_lmdb_problem(&last, ZARIS_INVALID_REQUEST, "an embedded store needs a directory with an absolute path");
	else if (!zaris_lmdb_name_is_good(config->url->name))
		zaris_lmdb_problem(&last, ZARIS_INVALID_REQUEST, "%s", bad_name);
	if (last.status != ZARIS_OK)
		return refuse(&last);

	store = new_store(config);
	if (store == NULL)
	{
		zaris_lmdb_problem_code(&last, ENOMEM, "could not open embedded store \"%s\"", config->url->name);
		return refuse(&last);
	}

	/* What is wrong with the file is said at once. That it is not to be had at this moment is left to fetch_map. */
	store->environment = zaris_lmdb_acquire(store->directory, store->name, &last);
	if (store->environment == NULL && last.status != ZARIS_UNAVAILABLE)
	{
		lmdb_close(store);
		return refuse(&last);
	}
	*result = store;
	*problem = NULL;
	return ZARIS_OK;
}

/* operations */

/* Room for one entry more, at the end. */
static bool
make_room(ZarisStore *store)
{
	size_t room = store->room == 0 ? FIRST_ROOM : store->room * 2;
	Entry *entries;

	if (store->end < store->room)
		return true;

	/* Entries that were told leave room at the start. */
	if (store->start > store->room / 2)
	{
		memmove(store->entries, store->entries + store->start, sizeof(Entry) * (store->end - store->start));
		store->end -= store->start;
		store->start = 0;
		return true;
	}
	entries = realloc(store->entries, sizeof(Entry) * room);
	if (entries == NULL)
		return false;
	store->entries = entries;
	store->room = room;
	return true;
}

static void
lmdb_submit(ZarisStore *store, int id, const ZarisNode *node, ZarisOperation *operation, bool asking)
{
	Entry *entry;

	if (!make_room(store))
	{
		ZarisAnswer answer;

		/* Nowhere to remember it: then it is answered here, which is better than never. */
		zaris_lmdb_answer(&answer, ZARIS_NO_MEMORY, NULL);
		answer.outcome = ZARIS_OUTCOME_NOT_SENT;
		store->events->answered(store->client, operation, &answer);
		return;
	}
	entry = &store->entries[store->end++];
	memset(entry, 0, sizeof(*entry));
	entry->operation = operation;
	entry->batch = operation->batch;
}

/* Answer everything that is in the queue with store->problem: none of it was begun. */
static void
turn_away(ZarisStore *store)
{
	answer_all(store, store->end - store->start, ZARIS_OUTCOME_NOT_SENT);
	store->done = store->end - store->start;
	store->running = true;
	tell(store);
	store->running = false;
}

static void
lmdb_flush(ZarisStore *store)
{
	if (store->start == store->end || store->running)
		return;
	if (store->environment != NULL)
	{
		run_queue(store, store->end - store->start);
		return;
	}

	/* Nobody knows of a node before the map was fetched, which opens it; but that is the core's promise, not ours. */
	zaris_lmdb_problem(&store->problem, ZARIS_UNAVAILABLE, "embedded store \"%s\" is not open yet", store->name);
	turn_away(store);
}

static void
lmdb_detach(ZarisStore *store, struct ZarisBatch *batch, bool broken)
{
	for (size_t at = store->start; at < store->end; at++)
	{
		if (store->entries[at].batch == batch)
			store->entries[at].operation = NULL;
	}
}

/* There is no connection to break. What is still in the queue, for whichever batch, goes back to the core. */
static void
lmdb_disconnect(ZarisStore *store, int id)
{
	if (store->running || store->start == store->end)
		return;
	zaris_lmdb_problem(&store->problem, ZARIS_TRANSPORT_ERROR, "the operation was not begun");
	turn_away(store);
}

static int
lmdb_connections(ZarisStore *store)
{
	return store->environment != NULL ? 1 : 0;
}

const ZarisStoreDriver zaris_lmdb_driver = {
	.version = ZARIS_STORE_VERSION,
	.name = "lmdb",
	.capabilities = ZARIS_CAN_ORDER | ZARIS_CAN_SNAPSHOT | ZARIS_CAN_ATOMIC | ZARIS_CAN_EXPIRE | ZARIS_CAN_COUNT |
					ZARIS_CAN_RECORDS | ZARIS_CAN_LOCK,
	.scheme = ZARIS_SCHEME_INPROC,
	.open = lmdb_open,
	.close = lmdb_close,
	.fetch_map = lmdb_fetch_map,
	.slot = lmdb_slot,
	.submit = lmdb_submit,
	.flush = lmdb_flush,
	.detach = lmdb_detach,
	.disconnect = lmdb_disconnect,
	.drop = zaris_lmdb_drop,
	.connections = lmdb_connections,
};

ZarisStatus
zaris_lmdb_drop(const char *directory, const char *name, const char **problem)
{
	static ZarisLmdbProblem last;

	*problem = last.text;
	if (!zaris_lmdb_name_is_good(name))
		zaris_lmdb_problem(&last, ZARIS_INVALID_REQUEST, "%s", bad_name);
	else if (zaris_lmdb_remove_store(directory, name, &last))
	{
		*problem = NULL;
		return ZARIS_OK;
	}
	return refuse(&last);
}
