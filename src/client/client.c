/*
 * client.c
 *	  An operation's life: queued, sent, answered, done (client.h); the one place where map, retry and store meet.
 *
 * The main loop is zaris_client_turn(): let go what was composed, turn the loop (answers come: operations end, or
 * stand in their batch's queue again), ask the next node for the map if one is to be asked, send what is due, end
 * what is past its deadline, let go again.  Everything that waits does so in a queue; there is no thread and no
 * sleeping here.
 *
 * I6 is kept by the state: finish() is the only place that sets ZARIS_OPERATION_DONE, and an answer for an
 * operation that is not SENT is dropped.
 */
#include "client/inside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* small things */

uint64_t
zaris_client_read_clock(ZarisClient *client)
{
	client->now_us = client->host.now_us(client->host.context);
	return client->now_us;
}

double
zaris_client_jitter(ZarisClient *client)
{
	uint64_t bits = client->host.random(client->host.context) >> 11; /* 53: all that a double holds */

	return (double) bits / (double) (UINT64_C(1) << 52) - 1.0;
}

bool
zaris_operation_is_write(const ZarisOperation *operation)
{
	return operation->kind == ZARIS_OP_PUT || operation->kind == ZARIS_OP_DELETE;
}

bool
zaris_operation_is_at_node(const ZarisOperation *operation)
{
	return operation->kind == ZARIS_OP_SCAN_PAGE || operation->kind == ZARIS_OP_LIST_SLOTS ||
		   operation->kind == ZARIS_OP_NODE_STATE;
}

/* Keep a store's words: raw, cut, NUL-terminated. */
void
zaris_operation_set_text(char text[ZARIS_ERROR_TEXT], const char *words, size_t len)
{
	if (words == NULL)
		len = 0;
	if (len >= ZARIS_ERROR_TEXT)
		len = ZARIS_ERROR_TEXT - 1;
	if (len > 0)
		memcpy(text, words, len);
	text[len] = '\0';
}

static bool
was_visited(const ZarisOperation *operation, int id)
{
	for (int i = 0; i < operation->n_visited; i++)
	{
		if (operation->visited[i] == id)
			return true;
	}
	return false;
}

/* Remember the last nodes in order; several attempts at one node are one visit. */
static void
visit(ZarisOperation *operation, int id)
{
	if (operation->n_visited > 0 && operation->visited[operation->n_visited - 1] == id)
		return;
	if (operation->n_visited == ZARIS_MAX_VISITED)
	{
		memmove(operation->visited, operation->visited + 1, sizeof(operation->visited[0]) * (ZARIS_MAX_VISITED - 1));
		operation->n_visited--;
	}
	operation->visited[operation->n_visited++] = id;
}

/* the end */

static uint64_t
count_result_bytes(const ZarisOperation *operation)
{
	uint64_t bytes = operation->result.len;

	if (operation->kind == ZARIS_OP_GET)
	{
		for (int i = 0; i < operation->n_fields; i++)
			bytes += operation->fields[i].value.len;
		for (int i = 0; i < operation->n_all_fields; i++)
			bytes += operation->all_fields[i].name.len + operation->all_fields[i].value.len;
	}
	else if (operation->page != NULL)
	{
		for (int i = 0; i < operation->page->n; i++)
			bytes += operation->page->records[i].key.len + operation->page->records[i].value.len;
	}
	return bytes;
}

/* The one final status (I6). */
static void
finish(ZarisClient *client, ZarisOperation *operation, ZarisStatus status)
{
	ZARIS_ASSERT(operation->state != ZARIS_OPERATION_DONE && operation->state != ZARIS_OPERATION_NEW);
	operation->state = ZARIS_OPERATION_DONE;
	operation->status = status;
	operation->finished_us = client->now_us;
	client->stats.operations++;
	if (status == ZARIS_OK)
		client->stats.result_bytes += count_result_bytes(operation);
	zaris_batch_finished_one(operation->batch, operation);
}

/* What an attempt may have left behind must not look like a result of the next one. */
static void
forget_result(ZarisOperation *operation)
{
	operation->result.data = NULL;
	operation->result.len = 0;
	operation->all_fields = NULL;
	operation->n_all_fields = 0;
	operation->has_version = false;
	operation->expiry_ms = ZARIS_NO_EXPIRY;
	operation->page = NULL;
	operation->node_state = NULL;
}

/* again */

/* Stand in the queue until at_us; with await also until the refresh under way has ended, but not for ever. */
static void
park(ZarisClient *client, ZarisOperation *operation, uint64_t at_us, bool await)
{
	uint64_t bound = client->now_us + client->map_refresh_wait_us;

	operation->not_before_us = at_us;
	operation->awaits_refresh = await;
	operation->has_waited = false;
	operation->wake_at_us = await && bound > at_us ? bound : at_us;
	zaris_batch_enqueue(operation->batch, operation);
}

static ZarisRetryInput
retry_input(ZarisClient *client, const ZarisOperation *operation, ZarisStatus status, ZarisOutcome outcome)
{
	ZarisRetryInput input = {0};

	input.status = status;
	input.outcome = outcome;
	input.redirect = ZARIS_REDIRECT_NONE;
	input.is_write = zaris_operation_is_write(operation);
	input.at_node = zaris_operation_is_at_node(operation);
	input.attempts = operation->attempts;
	input.hops = operation->hops;
	input.revisits = operation->revisits;
	input.tainted = operation->tainted;
	input.precondition = operation->precondition;
	input.kind = operation->kind;
	input.now_us = client->now_us;
	input.deadline_us = operation->batch->deadline_us;
	input.jitter = zaris_client_jitter(client);
	return input;
}

/* Carry out FOLLOW or AGAIN. target: of the redirect. */
static void
go_on(ZarisClient *client, ZarisOperation *operation, const ZarisRetryInput *input,
	  const ZarisRetryDecision *decision, int target, bool await)
{
	forget_result(operation);
	operation->target = ZARIS_NO_NODE;
	operation->asking = false;
	operation->hopping = decision->action == ZARIS_RETRY_FOLLOW;
	if (operation->hopping)
	{
		client->stats.redirects++;
		operation->hops++;
		operation->asking = input->redirect == ZARIS_REDIRECT_ASK;

		/*
		 * After a pause for a hand-over the map knows better than an old MOVED: it has the slot as patched, or as
		 * the refresh found it.
		 */
		if (operation->asking || !input->target_visited)
			operation->target = target;
		if (input->target_visited)
			operation->revisits++;
	}
	else
		client->stats.retries++;
	park(client, operation, decision->at_us, await);
}

/* There is nobody to send it to: an attempt all the same, that reached nobody. */
static void
end_unroutable(ZarisClient *client, ZarisOperation *operation, ZarisStatus status, const char *text)
{
	ZarisRetryInput	   input;
	ZarisRetryDecision decision;

	if (!operation->hopping)
		operation->attempts++;
	operation->last_status = status;
	operation->map_generation = client->map.generation;
	zaris_operation_set_text(operation->error_text, text, strlen(text));

	input = retry_input(client, operation, status, ZARIS_OUTCOME_NOT_SENT);
	decision = zaris_retry_decide(&client->policy, &input);
	if (decision.action == ZARIS_RETRY_FINISH)
		finish(client, operation, decision.status);
	else
	{
		/* The refresh belongs to the next attempt, which begins by asking for one: not before the backoff is over. */
		go_on(client, operation, &input, &decision, ZARIS_NO_NODE, false);
	}
}

/* sending */

static void
send_to(ZarisClient *client, ZarisOperation *operation, int id)
{
	bool asking = operation->asking;

	/*
	 * A node that redirects to itself stands behind an address that leads elsewhere by now: dial it anew.  Not while
	 * something is in flight there, whose outcome would be in doubt for nothing.
	 */
	if (client->reconnect[id] && client->in_flight[id] == 0)
	{
		client->reconnect[id] = false;
		client->driver->disconnect(client->store, id);
	}

	if (!operation->hopping)
		operation->attempts++;
	visit(operation, id);
	operation->node = id;
	operation->state = ZARIS_OPERATION_SENT;
	operation->map_generation = client->map.generation;
	operation->target = ZARIS_NO_NODE;
	operation->asking = false;
	operation->hopping = false;
	client->in_flight[id]++;
	client->stats.requests++;
	client->unflushed = true;
	client->driver->submit(client->store, id, &client->map.now.nodes[id], operation, asking);
}

static void
describe_unroutable(ZarisClient *client, int slot, ZarisStatus *status, char text[ZARIS_ERROR_TEXT])
{
	*status = ZARIS_UNAVAILABLE;
	if (client->map.generation > 0)
		snprintf(text, ZARIS_ERROR_TEXT, "no node owns slot %d", slot);
	else if (client->refresh.state != ZARIS_REFRESH_IDLE)
		snprintf(text, ZARIS_ERROR_TEXT, "the cluster map did not come in time");
	else
	{
		const char *words = zaris_client_map_error(client, status);

		zaris_operation_set_text(text, words, strlen(words));
		if (*status == ZARIS_OK)
			*status = ZARIS_UNAVAILABLE;
	}
}

/*
 * Send an operation to its slot's owner.  Without an owner: wait for a refresh first, once (may_wait), then it
 * counts as an attempt that failed.
 */
static void
route(ZarisClient *client, ZarisOperation *operation, bool may_wait)
{
	int			slot;
	int			owner;
	ZarisStatus status;
	char		text[ZARIS_ERROR_TEXT];

	if (zaris_operation_is_at_node(operation))
	{
		if (operation->node < 0 || operation->node >= client->map.now.n_nodes)
			end_unroutable(client, operation, ZARIS_INVALID_REQUEST, "there is no such node");
		else
			send_to(client, operation, operation->node);
		return;
	}

	slot = zaris_client_slot(client, operation->key.data, operation->key.len);
	owner = zaris_map_owner(&client->map, slot);
	if (owner >= 0)
		send_to(client, operation, owner);
	else if (may_wait && zaris_refresh_want(client, operation, ZARIS_NO_NODE))
		park(client, operation, client->now_us, true);
	else
	{
		describe_unroutable(client, slot, &status, text);
		end_unroutable(client, operation, status, text);
	}
}

void
zaris_client_submit(ZarisClient *client, ZarisOperation *operation)
{
	route(client, operation, true);
}

void
zaris_client_flush(ZarisClient *client)
{
	if (!client->unflushed)
		return;
	client->unflushed = false;
	client->stats.flushes++;
	client->driver->flush(client->store);
}

/* answers */

/* An answer that asks for more: what the retry rules make of it. */
static void
handle_transient(ZarisClient *client, ZarisOperation *operation, const ZarisAnswer *answer)
{
	int				   answered_by = operation->node;
	int				   target = ZARIS_NO_NODE;
	bool			   is_refreshing = false;
	ZarisRetryInput	   input;
	ZarisRetryDecision decision;

	zaris_client_read_clock(client);
	input = retry_input(client, operation, answer->status, answer->outcome);
	if (answer->redirect != ZARIS_REDIRECT_NONE)
		target = zaris_map_node(&client->map, &answer->target);
	if (target >= 0)
	{
		input.redirect = answer->redirect;
		input.target_visited = was_visited(operation, target);
		if (target == answered_by && answer->redirect == ZARIS_REDIRECT_MOVED)
			client->reconnect[target] = true;
	}

	decision = zaris_retry_decide(&client->policy, &input);
	operation->tainted = decision.tainted;
	if (decision.patch_slot)
		zaris_map_patch(&client->map, answer->slot, target);
	if (decision.refresh)
		is_refreshing = zaris_refresh_want(client, operation, decision.suspect ? answered_by : ZARIS_NO_NODE);

	if (decision.action == ZARIS_RETRY_FINISH)
		finish(client, operation, decision.status);
	else
		go_on(client, operation, &input, &decision, target, decision.await_refresh && is_refreshing);
}

/*
 * The deadline passed.  A write of which not every byte left the process was not applied; one that left is in
 * doubt (I8).
 */
static void
end_expired(ZarisClient *client, ZarisOperation *operation, bool in_doubt)
{
	if (zaris_operation_is_write(operation) && in_doubt)
		operation->tainted = true;
	finish(client, operation, operation->tainted ? ZARIS_OUTCOME_UNKNOWN : ZARIS_DEADLINE_EXCEEDED);
}

static void
answered(ZarisClient *client, ZarisOperation *operation, const ZarisAnswer *answer)
{
	ZarisStatusClass class = zaris_status_class(answer->status);

	ZARIS_ASSERT(operation->state == ZARIS_OPERATION_SENT);
	if (operation->state != ZARIS_OPERATION_SENT)
		return; /* I6 */
	client->in_flight[operation->node]--;

	/* Its connection is being closed because the deadline passed: there is nothing to retry. */
	if (operation->batch->expiring && class == ZARIS_CLASS_TRANSIENT)
	{
		end_expired(client, operation, answer->outcome == ZARIS_OUTCOME_IN_DOUBT);
		return;
	}
	operation->last_status = answer->status;
	zaris_operation_set_text(operation->error_text, answer->text, answer->text_len);

	/* the usual case */
	if (class == ZARIS_CLASS_DONE || (class == ZARIS_CLASS_ANSWER && !operation->tainted))
		finish(client, operation, answer->status);
	else
		handle_transient(client, operation, answer);
}

static void
map_fetched(ZarisClient *client, ZarisStatus status, const ZarisTopology *topology, const char *text)
{
	zaris_refresh_fetched(client, status, topology, text);
}

static const ZarisStoreEvents events = {answered, map_fetched};

/* turning */

/* The operations of one batch that wait for a refresh have waited; they still keep to their backoff. */
static void
release_batch_waiters(ZarisBatch *batch)
{
	batch->awaits_refresh = false;
	for (ZarisOperation *operation = batch->queue; operation != NULL; operation = operation->next)
	{
		if (!operation->awaits_refresh)
			continue;
		operation->awaits_refresh = false;
		operation->has_waited = true;
		operation->wake_at_us = operation->not_before_us;
		if (operation->wake_at_us < batch->wake_at_us)
			batch->wake_at_us = operation->wake_at_us;
	}
}

/* If a refresh has ended since this was called last: nobody waits for it any more. */
void
zaris_client_release_waiters(ZarisClient *client)
{
	if (!client->refresh.ended)
		return;
	client->refresh.ended = false;
	for (ZarisLink *link = client->waiting.next; link != &client->waiting; link = link->next)
	{
		ZarisBatch *batch = ZARIS_OF_LINK(ZarisBatch, waiting, link);

		if (batch->awaits_refresh)
			release_batch_waiters(batch);
	}
}

/* Send what is due; put back what is not. */
static void
wake_batch(ZarisClient *client, ZarisBatch *batch)
{
	ZarisOperation *operation = zaris_batch_take_queue(batch);

	while (operation != NULL)
	{
		ZarisOperation *next = operation->next;

		if (client->now_us < operation->wake_at_us)
			zaris_batch_enqueue(batch, operation);
		else if (operation->target != ZARIS_NO_NODE)
			send_to(client, operation, operation->target);
		else
		{
			/* Its wait for a refresh is over, or was too long: the refresh itself goes on for others. */
			bool has_waited = operation->has_waited || operation->awaits_refresh;

			operation->awaits_refresh = false;
			route(client, operation, !has_waited);
		}
		operation = next;
	}
}

static void
wake(ZarisClient *client)
{
	ZarisLink *link;
	ZarisLink *following;

	zaris_client_release_waiters(client);
	ZARIS_EACH_LINK(link, following, &client->waiting)
	{
		ZarisBatch *batch = ZARIS_OF_LINK(ZarisBatch, waiting, link);

		/* What is past its deadline is not sent any more; expire() is next. */
		if (client->now_us >= batch->wake_at_us && client->now_us < batch->deadline_us)
			wake_batch(client, batch);
	}
}

/* Call visit for each operation of the batch that is in a state. */
static void
each_operation(ZarisClient *client, ZarisBatch *batch, ZarisOperationState state,
			   void (*visit_one)(ZarisClient *client, ZarisOperation *operation))
{
	if (batch->slab == NULL)
		return;
	for (ZarisSlab *slab = batch->slabs;; slab = slab->next)
	{
		for (int i = 0; i < slab->used; i++)
		{
			if (slab->operations[i].state == state)
				visit_one(client, &slab->operations[i]);
		}
		if (slab == batch->slab)
			break;
	}
}

/*
 * Close the connection that an operation waits for: it owes a reply that nobody will take (I10).  The driver then says
 * how far the operation had got.
 */
static void
break_off(ZarisClient *client, ZarisOperation *operation)
{
	client->driver->disconnect(client->store, operation->node);
}

static void
end_sent(ZarisClient *client, ZarisOperation *operation)
{
	client->in_flight[operation->node]--;
	end_expired(client, operation, true);
}

void
zaris_client_expire_batch(ZarisClient *client, ZarisBatch *batch)
{
	ZarisOperation *queued;

	batch->expiring = true;
	each_operation(client, batch, ZARIS_OPERATION_SENT, break_off);

	/* Those of which the driver did not say anything at once: assume the worst. */
	if (batch->pending > 0)
	{
		client->driver->detach(client->store, batch, true);
		each_operation(client, batch, ZARIS_OPERATION_SENT, end_sent);
	}
	queued = zaris_batch_take_queue(batch);
	while (queued != NULL)
	{
		ZarisOperation *next = queued->next;

		end_expired(client, queued, false);
		queued = next;
	}
	batch->expiring = false;
	ZARIS_ASSERT(batch->pending == 0);
}

/* From the front after each one: closing its connections may have ended other batches of the list. */
static void
expire(ZarisClient *client)
{
	ZarisLink *link = client->timed.next;

	while (link != &client->timed)
	{
		ZarisBatch *batch = ZARIS_OF_LINK(ZarisBatch, timed, link);

		link = link->next;
		if (client->now_us >= batch->deadline_us)
		{
			zaris_client_expire_batch(client, batch);
			link = client->timed.next;
		}
	}
}

void
zaris_client_turn(ZarisClient *client)
{
	zaris_client_read_clock(client);
	zaris_refresh_step(client);
	zaris_client_flush(client);
	if (client->loop != NULL)
		zaris_loop_turn(client->loop);

	zaris_client_read_clock(client);
	zaris_refresh_step(client);
	wake(client);
	expire(client);
	zaris_refresh_step(client); /* what was woken may have asked for it */
	zaris_client_flush(client);
}

static uint64_t
next_event(const ZarisClient *client)
{
	uint64_t		 at = ZARIS_FAR_FUTURE;
	const ZarisLink *link;

	for (link = client->waiting.next; link != &client->waiting; link = link->next)
	{
		const ZarisBatch *batch = ZARIS_OF_LINK(const ZarisBatch, waiting, link);

		if (batch->wake_at_us < at)
			at = batch->wake_at_us;
	}
	for (link = client->timed.next; link != &client->timed; link = link->next)
	{
		const ZarisBatch *batch = ZARIS_OF_LINK(const ZarisBatch, timed, link);

		if (batch->deadline_us < at)
			at = batch->deadline_us;
	}
	for (link = client->scans.next; link != &client->scans; link = link->next)
	{
		const ZarisScanLink *scan = ZARIS_OF_LINK(const ZarisScanLink, link, link);

		if (scan->wake_at_us < at)
			at = scan->wake_at_us;
	}
	return at;
}

int
zaris_client_timeout_ms(ZarisClient *client)
{
	int		 timeout = client->loop != NULL ? zaris_loop_timeout_ms(client->loop) : -1;
	uint64_t at = next_event(client);
	uint64_t now;
	uint64_t left_ms;

	if (timeout == 0 || client->unflushed || client->refresh.ended || client->refresh.state == ZARIS_REFRESH_DUE)
		return 0;
	if (at == ZARIS_FAR_FUTURE)
		return timeout;

	now = client->host.now_us(client->host.context);
	left_ms = at > now ? (at - now + 999) / 1000 : 0;
	if (timeout >= 0 && left_ms >= (uint64_t) timeout)
		return timeout;
	return left_ms > INT_MAX ? INT_MAX : (int) left_ms;
}

/* detaching */

static void
uncount_sent(ZarisClient *client, ZarisOperation *operation)
{
	client->in_flight[operation->node]--;
	operation->batch = NULL;
}

static void
uncount_queued(ZarisClient *client, ZarisOperation *operation)
{
	(void) client;
	operation->batch = NULL;
}

/* Forget what is unfinished. Calls nothing back; the operations stay as they are, without a final status. */
void
zaris_client_detach(ZarisClient *client, ZarisBatch *batch, bool broken)
{
	client->driver->detach(client->store, batch, broken);
	each_operation(client, batch, ZARIS_OPERATION_SENT, uncount_sent);
	each_operation(client, batch, ZARIS_OPERATION_QUEUED, uncount_queued);
	zaris_batch_take_queue(batch);
	zaris_link_remove(&batch->timed);
	batch->pending = 0;
	batch->writes = 0;
}

/* the client */

static void
default_policy(ZarisRetryPolicy *policy)
{
	policy->max_attempts = 3;
	policy->backoff_us = 100000;
	policy->disabled = false;
}

static bool
open_store(ZarisClient *client, const ZarisClientOptions *options, const char **problem)
{
	ZarisStoreConfig config = {0};
	ZarisStatus		 status;

	config.url = &client->url;
	config.user = options->user;
	config.password = options->password;
	config.client_name = options->client_name;
	config.directory = options->directory;
	config.connect_timeout_us = options->connect_timeout_us;
	config.host = &client->host;
	config.loop = client->loop;
	config.client = client;
	config.events = &events;

	*problem = NULL;
	status = client->driver->open(&config, &client->store, problem);
	if (status == ZARIS_OK)
		return true;
	if (*problem == NULL)
		*problem = zaris_status_text(status);
	return false;
}

ZarisClient *
zaris_client_open(const ZarisStoreDriver *driver, const ZarisClientOptions *options,
				  const ZarisHost *host, ZarisLoop *loop, const char **problem)
{
	ZarisClient *client;

	if (driver->version != ZARIS_STORE_VERSION)
	{
		*problem = "The driver of the store is of another version.";
		return NULL;
	}
	client = calloc(1, sizeof(*client));
	if (client == NULL)
	{
		*problem = "There is not enough memory for a client.";
		return NULL;
	}
	client->driver = driver;
	client->host = *host;
	client->loop = loop;
	client->url = options->url;
	client->map_refresh_wait_us = options->map_refresh_wait_us;
	default_policy(&client->policy);
	zaris_map_reset(&client->map);
	zaris_link_init(&client->batches);
	zaris_link_init(&client->waiting);
	zaris_link_init(&client->timed);
	zaris_link_init(&client->scans);
	if (!open_store(client, options, problem))
	{
		free(client);
		return NULL;
	}
	return client;
}

/* What is left is abandoned, so pointers to scans and batches of this client are void afterwards. */
void
zaris_client_close(ZarisClient *client)
{
	if (client == NULL)
		return;
	while (!zaris_link_is_alone(&client->scans))
		zaris_scan_abandon_link(ZARIS_OF_LINK(ZarisScanLink, link, client->scans.next));
	while (!zaris_link_is_alone(&client->batches))
		zaris_batch_abandon(ZARIS_OF_LINK(ZarisBatch, all, client->batches.next));
	client->driver->close(client->store);
	free(client);
}

void
zaris_client_set_policy(ZarisClient *client, const ZarisRetryPolicy *policy)
{
	client->policy = *policy;
	if (client->policy.max_attempts < 1)
		client->policy.max_attempts = 1;
}

void
zaris_client_set_map_refresh_wait(ZarisClient *client, uint64_t wait_us)
{
	client->map_refresh_wait_us = wait_us;
}

bool
zaris_client_wants_lock(const ZarisClient *client)
{
	if (!(client->driver->capabilities & ZARIS_CAN_LOCK))
		return false;
	for (const ZarisLink *link = client->batches.next; link != &client->batches; link = link->next)
	{
		if (ZARIS_OF_LINK(ZarisBatch, all, link)->writes > 0)
			return true;
	}
	return false;
}

/* A driver that can partition may have found a store that is not. */
unsigned
zaris_client_capabilities(const ZarisClient *client)
{
	unsigned capabilities = client->driver->capabilities;

	if (client->map.now.n_slots == 1)
		capabilities &= ~(unsigned) ZARIS_CAN_PARTITION;
	return capabilities;
}

const ZarisMap *
zaris_client_map(const ZarisClient *client)
{
	return &client->map;
}

const ZarisClientStats *
zaris_client_stats(const ZarisClient *client)
{
	return &client->stats;
}

int
zaris_client_slot(const ZarisClient *client, const char *key, size_t len)
{
	if (client->map.now.n_slots == 1)
		return 0;
	return client->driver->slot(key, len);
}

int
zaris_client_connections(const ZarisClient *client)
{
	return client->driver->connections(client->store);
}
