/*
 * resp.c
 *	  The driver of the RESP store (client/store.h): one connection a node, and the way of answers to the client.
 *
 * Answers are given from two places.  The usual one is finished(), in the middle of a loop's callback.  What ends outside
 * of one (a connection that cannot be opened, a batch that is abandoned while others wait on the same connection) is
 * put into `endings` and given by settle(), which runs at the end of each callback, of flush() and of disconnect();
 * submit() and detach() must call nothing back, so they have a timer run it in the next turn.
 */
#include <stdlib.h>
#include <string.h>

#include "client/check.h"
#include "stores/resp/classify.h"
#include "stores/resp/commands.h"
#include "stores/resp/connection.h"
#include "stores/resp/fetch.h"
#include "stores/resp/resp.h"
#include "stores/resp/slot.h"

#define MAX_ORPHANS 10000 /* replies to nobody on one connection: beyond, a new one is cheaper */
#define MIN_ENDINGS 64

/* An operation that ended without a reply. */
typedef struct Ending
{
	ZarisOperation *operation; /* NULL = detached meanwhile */
	ZarisStatus		status;
	ZarisOutcome	outcome;
	const char	   *text; /* static, or a connection's fail_text */
} Ending;

struct ZarisStore
{
	ZarisClient			   *client;
	const ZarisStoreEvents *events;
	ZarisConnectionSetup	setup;
	ZarisAddress		   *seeds;
	char				   *user;
	char				   *password;
	char				   *client_name;

	ZarisConnection *connections[ZARIS_MAX_NODES]; /* by node id, made when first needed */
	int				 n_ids;						   /* no id from here on has one */
	ZarisConnection *dirty;						   /* those to advance */

	Ending	   *endings;
	size_t		endings_at; /* the first that was not given */
	size_t		n_endings;
	size_t		endings_size;
	ZarisTimer *timer; /* runs settle() in the next turn */
	bool		settling;

	ZarisFetch fetch;
	bool	   fetching;
};

/* endings */

static void
give_answer(ZarisStore *store, ZarisOperation *operation, ZarisStatus status, ZarisOutcome outcome, const char *text)
{
	ZarisAnswer answer;

	answer.status = status;
	answer.outcome = outcome;
	answer.redirect = ZARIS_REDIRECT_NONE;
	answer.slot = -1;
	answer.text = text;
	answer.text_len = text != NULL ? strlen(text) : 0;
	store->events->answered(store->client, operation, &answer);
}

static void
end_later(ZarisStore *store, ZarisOperation *operation, ZarisStatus status, ZarisOutcome outcome, const char *text)
{
	if (store->n_endings == store->endings_size)
	{
		size_t	size = store->endings_size > 0 ? store->endings_size * 2 : MIN_ENDINGS;
		Ending *endings = realloc(store->endings, size * sizeof(*endings));

		/* Without memory even for this: at an awkward moment, but exactly once. */
		if (endings == NULL)
		{
			give_answer(store, operation, status, outcome, text);
			return;
		}
		store->endings = endings;
		store->endings_size = size;
	}
	store->endings[store->n_endings++] = (Ending){operation, status, outcome, text};
}

static bool
has_endings(const ZarisStore *store)
{
	return store->endings_at < store->n_endings;
}

static void
give_endings(ZarisStore *store)
{
	while (has_endings(store))
	{
		Ending ending = store->endings[store->endings_at++];

		if (ending.operation != NULL)
			give_answer(store, ending.operation, ending.status, ending.outcome, ending.text);
	}
	store->endings_at = store->n_endings = 0;
}

/* The map fetch is over: the connection is closed, so that the client may begin the next one at once. */
static void
give_map(ZarisStore *store)
{
	ZarisFetch *fetch = &store->fetch;

	store->fetching = fetch->is_over = false;
	store->events->map_fetched(store->client, fetch->status, fetch->status == ZARIS_OK ? fetch->topology : NULL,
							   fetch->text);
}

static void
mark_dirty(ZarisStore *store, ZarisConnection *connection)
{
	if (connection->is_dirty)
		return;
	connection->is_dirty = true;
	connection->next_dirty = store->dirty;
	store->dirty = connection;
}

/* Send what was composed, give what has ended, until there is neither. */
static void
settle(void *context)
{
	ZarisStore *store = context;

	if (store->settling)
		return; /* a call from inside a callback: the outer one goes on */
	store->settling = true;
	while (store->dirty != NULL || has_endings(store) || (store->fetching && store->fetch.is_over))
	{
		ZarisConnection *connection = store->dirty;

		if (connection != NULL)
		{
			store->dirty = connection->next_dirty;
			connection->is_dirty = false;
			zaris_connection_advance(connection);
			continue;
		}
		give_endings(store);
		if (store->fetching && store->fetch.is_over)
			give_map(store);
	}
	store->settling = false;
}

static void
settle_next_turn(ZarisStore *store)
{
	zaris_timer_set(store->timer, zaris_loop_now_us());
}

/* composing */

/* One step of an operation into the connection's buffer and ring; what cannot be sent ends. */
static void
send_step(ZarisStore *store, ZarisConnection *connection, ZarisOperation *operation, ZarisStage stage, uint8_t flags)
{
	ZarisEntry	entry = {.operation = operation, .stage = (uint8_t) stage, .flags = flags};
	size_t		mark = connection->out.len;
	const char *problem = NULL;
	ZarisStatus status = zaris_command_compose(connection, &entry, &problem);

	if (status == ZARIS_OK && !zaris_connection_push(connection, &entry, mark))
		status = ZARIS_NO_MEMORY;
	if (status == ZARIS_OK)
	{
		mark_dirty(store, connection);
		return;
	}
	connection->out.len = mark;
	connection->out.failed = false;
	end_later(store, operation, status, ZARIS_OUTCOME_NOT_SENT, problem);
	settle_next_turn(store);
}

/* hooks of the connections */

static bool
replied(ZarisConnection *connection, ZarisEntry *entry, const ZarisReply *reply)
{
	return zaris_command_replied(connection, entry, reply);
}

/*
 * What follows from the replies: another step, the same once more (a script's text, after a login), or the answer.
 */
static bool
goes_on(ZarisStore *store, ZarisConnection *connection, const ZarisEntry *entry)
{
	unsigned   flags = connection->collector.flags;
	bool	   has_login = store->user != NULL || store->password != NULL;
	ZarisStage stage;

	if (connection->collector.garbage)
		return false;
	if ((flags & ZARIS_ERROR_NO_LOGIN) && has_login && !(entry->flags & ZARIS_ENTRY_LOGGED_IN))
	{
		zaris_connection_drain(connection, ZARIS_DRAIN_LOGIN);
		send_step(store, connection, entry->operation, entry->stage, entry->flags | ZARIS_ENTRY_LOGGED_IN);
		return true;
	}
	if ((flags & ZARIS_ERROR_NO_SCRIPT) && !(entry->flags & ZARIS_ENTRY_FULL_SCRIPT))
	{
		send_step(store, connection, entry->operation, entry->stage, entry->flags | ZARIS_ENTRY_FULL_SCRIPT);
		return true;
	}
	stage = zaris_command_finish(connection, entry);
	if (stage == ZARIS_STAGE_DONE)
		return false;
	send_step(store, connection, entry->operation, stage, entry->flags);
	return true;
}

static void
finished(ZarisConnection *connection, const ZarisEntry *entry)
{
	ZarisStore	*store = connection->owner;
	ZarisAnswer *answer = &connection->collector.answer;
	unsigned	 flags = connection->collector.flags;
	ZarisAnswer	 copy;

	if (goes_on(store, connection, entry))
		return;
	if (flags == 0)
	{
		store->events->answered(store->client, entry->operation, answer);
		return;
	}

	/* The connection's own fate first: it resets the collector. */
	copy = *answer;
	if (flags & ZARIS_ERROR_EVERYONE)
		zaris_connection_fail(connection, copy.status, true, false, copy.text, copy.text_len);
	else if (flags & ZARIS_ERROR_CLOSE)
		zaris_connection_fail(connection, ZARIS_TRANSPORT_ERROR, false, true, copy.text, copy.text_len);
	else if (flags & ZARIS_ERROR_RETIRE)
		zaris_connection_drain(connection, ZARIS_DRAIN_REOPEN);
	store->events->answered(store->client, entry->operation, &copy);
}

static void
failed(ZarisConnection *connection, const ZarisEntry *entry, ZarisStatus status, ZarisOutcome outcome)
{
	if (entry->operation == NULL)
		return;

	/* A write's second step asks why SET NX refused: it was not applied, whatever becomes of the question. */
	if (entry->operation->kind == ZARIS_OP_PUT && entry->stage == ZARIS_STAGE_TYPE)
		outcome = ZARIS_OUTCOME_REJECTED;
	end_later(connection->owner, entry->operation, status, outcome, connection->fail_text);
}

static void
settled(ZarisConnection *connection)
{
	ZarisStore *store = connection->owner;

	mark_dirty(store, connection);
	settle(store);
}

static const ZarisConnectionHooks hooks = {
	.replied = replied,
	.finished = finished,
	.failed = failed,
	.settled = settled};

/* the driver: life */

static bool
copy_text(const char *text, char **copy)
{
	*copy = text != NULL ? strdup(text) : NULL;
	return text == NULL || *copy != NULL;
}

static void
resp_close(ZarisStore *store)
{
	if (store == NULL)
		return;
	for (int id = 0; id < store->n_ids; id++)
	{
		if (store->connections[id] == NULL)
			continue;
		zaris_connection_free(store->connections[id]);
		free(store->connections[id]);
	}
	zaris_fetch_free(&store->fetch);
	zaris_timer_destroy(store->timer);
	free(store->endings);
	free(store->seeds);
	free(store->user);
	if (store->password != NULL)
		explicit_bzero(store->password, strlen(store->password));
	free(store->password);
	free(store->client_name);
	free(store);
}

static bool
copy_config(ZarisStore *store, const ZarisStoreConfig *config)
{
	ZarisConnectionSetup *setup = &store->setup;
	size_t				  n_seeds = (size_t) config->url->n_seeds;

	store->client = config->client;
	store->events = config->events;
	store->seeds = malloc((n_seeds > 0 ? n_seeds : 1) * sizeof(*store->seeds));
	if (store->seeds == NULL || !copy_text(config->user, &store->user) ||
		!copy_text(config->password, &store->password) || !copy_text(config->client_name, &store->client_name))
		return false;
	memcpy(store->seeds, config->url->seeds, n_seeds * sizeof(*store->seeds));
	setup->loop = config->loop;
	setup->seeds = store->seeds;
	setup->n_seeds = config->url->n_seeds;
	setup->user = store->user;
	setup->password = store->password;
	setup->client_name = store->client_name;
	setup->database = config->url->database;
	setup->connect_timeout_us = config->connect_timeout_us;
	zaris_scripts_prepare(&setup->scripts);
	return true;
}

static ZarisStatus
resp_open(const ZarisStoreConfig *config, ZarisStore **store, const char **problem)
{
	ZarisStore *opened = calloc(1, sizeof(*opened));

	if (opened == NULL)
		return ZARIS_NO_MEMORY;
	zaris_fetch_init(&opened->fetch, &opened->setup, settle, opened);
	opened->timer = zaris_timer_create(config->loop, settle, opened);
	if (opened->timer == NULL || !copy_config(opened, config))
	{
		resp_close(opened);
		*problem = "There is not enough memory for a connection.";
		return ZARIS_NO_MEMORY;
	}
	*store = opened;
	return ZARIS_OK;
}

/* the driver: work */

static ZarisConnection *
connection_of(ZarisStore *store, int id)
{
	ZarisConnection *connection = store->connections[id];

	if (connection == NULL)
	{
		connection = malloc(sizeof(*connection));
		if (connection == NULL)
			return NULL;
		zaris_connection_init(connection, &store->setup, &hooks, store);
		store->connections[id] = connection;
		if (id >= store->n_ids)
			store->n_ids = id + 1;
	}
	return connection;
}

static void
resp_submit(ZarisStore *store, int id, const ZarisNode *node, ZarisOperation *operation, bool asking)
{
	ZarisConnection *connection = connection_of(store, id);

	if (connection == NULL)
	{
		end_later(store, operation, ZARIS_NO_MEMORY, ZARIS_OUTCOME_NOT_SENT, NULL);
		settle_next_turn(store);
		return;
	}
	zaris_connection_set_address(connection, &node->address, node->ip);
	send_step(store, connection, operation, ZARIS_STAGE_FIRST, asking ? ZARIS_ENTRY_ASKING : 0);
}

static void
resp_flush(ZarisStore *store)
{
	settle(store);
}

/* The number behind a node's name, as the topology told it: looking up the name would block. */
static const char *
known_ip(const ZarisStore *store, const ZarisAddress *address)
{
	for (int id = 0; id < store->n_ids; id++)
		if (store->connections[id] != NULL && zaris_address_equal(&store->connections[id]->address, address))
			return store->connections[id]->ip;
	return "";
}

static void
resp_fetch_map(ZarisStore *store, const ZarisAddress *from)
{
	ZARIS_ASSERT(!store->fetching);
	if (store->fetching)
		return;
	store->fetching = true;
	zaris_fetch_start(&store->fetch, from, known_ip(store, from));
	if (store->fetch.is_over)
		settle_next_turn(store);
}

/*
 * What the batch had not sent is cut out.  For what it has in flight: after an error the connection is closed (I10), even
 * though others wait on it too; after a normal end the replies are counted off, unless there are too many.
 */
static void
detach_from(ZarisStore *store, ZarisConnection *connection, const struct ZarisBatch *batch, bool broken)
{
	static const char text[] = "connection was closed because a request on it was broken off";
	size_t			  in_flight = zaris_connection_forget(connection, batch);

	if ((broken && in_flight > 0) || connection->n_orphans > MAX_ORPHANS)
		zaris_connection_fail(connection, ZARIS_TRANSPORT_ERROR, false, true, text, sizeof(text) - 1);

	/* Nobody waits for this connection any more. */
	else if (broken && connection->ring_count == 0 && connection->state < ZARIS_CONNECTION_READY)
		zaris_connection_close(connection);
	if (connection->ring_count > 0)
	{
		mark_dirty(store, connection);
		settle_next_turn(store);
	}
}

static void
resp_detach(ZarisStore *store, struct ZarisBatch *batch, bool broken)
{
	for (size_t i = store->endings_at; i < store->n_endings; i++)
		if (store->endings[i].operation != NULL && store->endings[i].operation->batch == batch)
			store->endings[i].operation = NULL;
	for (int id = 0; id < store->n_ids; id++)
		if (store->connections[id] != NULL)
			detach_from(store, store->connections[id], batch, broken);
	if (has_endings(store))
		settle_next_turn(store);
}

static void
resp_disconnect(ZarisStore *store, int id)
{
	static const char text[] = "connection was closed because a reply did not come in time";

	if (id < 0 || id >= ZARIS_MAX_NODES || store->connections[id] == NULL)
		return;
	zaris_connection_fail(store->connections[id], ZARIS_TRANSPORT_ERROR, false, false, text, sizeof(text) - 1);
	settle(store);
}

static int
resp_connections(ZarisStore *store)
{
	int n = store->fetch.connection.stream != NULL;

	for (int id = 0; id < store->n_ids; id++)
		n += store->connections[id] != NULL && store->connections[id]->stream != NULL;
	return n;
}

const ZarisStoreDriver zaris_resp_driver = {
	.version = ZARIS_STORE_VERSION,
	.name = "resp",
	.capabilities = ZARIS_CAN_PARTITION | ZARIS_CAN_EXPIRE,
	.scheme = ZARIS_SCHEME_RESP,
	.open = resp_open,
	.close = resp_close,
	.fetch_map = resp_fetch_map,
	.slot = zaris_resp_slot,
	.submit = resp_submit,
	.flush = resp_flush,
	.detach = resp_detach,
	.disconnect = resp_disconnect,
	.connections = resp_connections};
