/*
 * fetch.c
 *	  One node asked for the map: see fetch.h.
 */
#include <stdlib.h>
#include <string.h>

#include "stores/resp/classify.h"
#include "stores/resp/fetch.h"
#include "stores/resp/topology.h"

static void
set_failure(ZarisFetch *fetch, ZarisStatus status, const char *text, size_t len)
{
	if (fetch->status != ZARIS_OK)
		return; /* the first counts */
	if (len >= sizeof(fetch->text))
		len = sizeof(fetch->text) - 1;
	memcpy(fetch->text, text, len);
	fetch->text[len] = '\0';
	fetch->status = status;
}

static void
set_failure_text(ZarisFetch *fetch, ZarisStatus status, const char *text)
{
	set_failure(fetch, status, text, strlen(text));
}

/* composing */

static void
compose_words(ZarisOut *out, const char *first, const char *second)
{
	zaris_out_begin(out, second != NULL ? 2 : 1);
	zaris_out_text(out, first);
	if (second != NULL)
		zaris_out_text(out, second);
}

static void
send_step(ZarisFetch *fetch, ZarisFetchStep step)
{
	ZarisOut  *out = &fetch->connection.out;
	size_t	   mark = out->len;
	ZarisEntry entry = {.expected = 2};

	fetch->step = fetch->next = step;
	switch (step)
	{
		case ZARIS_FETCH_SHARDS:
			compose_words(out, "CLUSTER", "SHARDS");
			compose_words(out, "CLUSTER", "INFO");
			break;
		case ZARIS_FETCH_SLOTS:
			compose_words(out, "CLUSTER", "SLOTS");
			entry.expected = 1;
			break;
		case ZARIS_FETCH_ROLE:
			compose_words(out, "ROLE", NULL);
			compose_words(out, "INFO", "cluster");
			break;
	}
	if (zaris_connection_push(&fetch->connection, &entry, mark))
		return;
	set_failure_text(fetch, ZARIS_NO_MEMORY, "out of memory");
	fetch->is_over = true;
}

/* replies */

/* What an administrator has to do is known, so say it. */
static void
map_denied(ZarisFetch *fetch, bool info)
{
	if (info)
		set_failure_text(fetch, ZARIS_PERMISSION_DENIED, "the user may not ask for the cluster's epoch; grant +cluster|info");
	else if (fetch->step == ZARIS_FETCH_SLOTS)
		set_failure_text(fetch, ZARIS_PERMISSION_DENIED, "the user may not ask for the cluster map; grant +cluster|slots");
	else
		set_failure_text(fetch, ZARIS_PERMISSION_DENIED,
						 "the user may not ask for the cluster map; grant +cluster|shards and +cluster|info");
}

static void
map_refused(ZarisFetch *fetch, const ZarisReply *reply)
{
	const ZarisErrorRule *rule = zaris_classify(reply->data, reply->len);

	if (fetch->step == ZARIS_FETCH_SHARDS && (rule->flags & ZARIS_ERROR_OLDER))
		fetch->next = ZARIS_FETCH_SLOTS;
	else if (fetch->step != ZARIS_FETCH_ROLE && (rule->flags & ZARIS_ERROR_NO_CLUSTER))
		fetch->next = ZARIS_FETCH_ROLE;
	else if (fetch->step == ZARIS_FETCH_ROLE &&
			 (rule->status == ZARIS_PERMISSION_DENIED || (rule->flags & ZARIS_ERROR_NO_CLUSTER)))
		zaris_resp_single_node(&fetch->connection.address, fetch->topology); /* the first write will tell */
	else if (rule->status == ZARIS_PERMISSION_DENIED)
		map_denied(fetch, false);
	else
		set_failure(fetch, rule->status, reply->data, reply->len);
}

/* False: the reply is garbage. */
static bool
map_replied(ZarisFetch *fetch, const ZarisReply *reply)
{
	const ZarisAddress *origin = &fetch->connection.address;
	const char		   *problem = "";
	ZarisStatus			status = ZARIS_OK;

	if (reply->type == ZARIS_REPLY_ERROR)
	{
		map_refused(fetch, reply);
		return true;
	}
	switch (fetch->step)
	{
		case ZARIS_FETCH_SHARDS:
			status = zaris_resp_read_shards(reply, origin, fetch->topology, &problem);
			break;
		case ZARIS_FETCH_SLOTS:
			status = zaris_resp_read_slots(reply, origin, fetch->topology, &problem);
			break;
		case ZARIS_FETCH_ROLE:
			status = zaris_resp_read_role(reply, origin, fetch->topology, &problem);
			break;
	}
	if (status != ZARIS_OK)
		set_failure_text(fetch, status, problem);
	return true;
}

/* The epoch; and from a server that has no CLUSTER to offer, whether it is a cluster's node all the same. */
static void
info_replied(ZarisFetch *fetch, const ZarisReply *reply)
{
	uint64_t number;

	if (reply->type == ZARIS_REPLY_ERROR)
	{
		const ZarisErrorRule *rule = zaris_classify(reply->data, reply->len);

		/* Without a cluster there is no epoch, and a restricted user or a proxy may have no INFO. */
		if (fetch->step == ZARIS_FETCH_ROLE || fetch->next == ZARIS_FETCH_ROLE)
			return;
		if (rule->status == ZARIS_PERMISSION_DENIED)
			map_denied(fetch, true);
		else
			set_failure(fetch, rule->status, reply->data, reply->len);
		return;
	}
	if (fetch->step == ZARIS_FETCH_SHARDS && zaris_resp_info_number(reply, "cluster_current_epoch", &number))
		fetch->epoch = number;
	if (fetch->step == ZARIS_FETCH_ROLE && zaris_resp_info_number(reply, "cluster_enabled", &number) && number == 1)
		set_failure_text(fetch, ZARIS_INVALID_REQUEST,
						 "the node belongs to a cluster, but its CLUSTER command is not to be had under this name");
}

static bool
fetch_replied(ZarisConnection *connection, ZarisEntry *entry, const ZarisReply *reply)
{
	ZarisFetch *fetch = connection->owner;

	if (entry->seen == 1)
		return map_replied(fetch, reply);
	info_replied(fetch, reply);
	return true;
}

/* hooks */

static void
fetch_finished(ZarisConnection *connection, const ZarisEntry *entry)
{
	ZarisFetch *fetch = connection->owner;

	(void) entry;
	if (connection->collector.garbage)
		set_failure(fetch, connection->collector.answer.status, connection->collector.answer.text,
					connection->collector.answer.text_len);
	else if (fetch->status == ZARIS_OK && fetch->next != fetch->step)
	{
		send_step(fetch, fetch->next);
		return;
	}
	fetch->topology->epoch = fetch->epoch;
	fetch->is_over = true;
	zaris_connection_close(connection);
}

static void
fetch_failed(ZarisConnection *connection, const ZarisEntry *entry, ZarisStatus status, ZarisOutcome outcome)
{
	ZarisFetch *fetch = connection->owner;

	(void) entry;
	(void) outcome;
	set_failure_text(fetch, status, connection->fail_text);
	fetch->is_over = true;
}

static void
fetch_settled(ZarisConnection *connection)
{
	ZarisFetch *fetch = connection->owner;

	zaris_connection_advance(connection);
	fetch->settle(fetch->owner);
}

static const ZarisConnectionHooks fetch_hooks = {
	.replied = fetch_replied,
	.finished = fetch_finished,
	.failed = fetch_failed,
	.settled = fetch_settled};

/* life */

void
zaris_fetch_init(ZarisFetch *fetch, const ZarisConnectionSetup *setup, void (*settle)(void *owner), void *owner)
{
	memset(fetch, 0, sizeof(*fetch));
	zaris_connection_init(&fetch->connection, setup, &fetch_hooks, fetch);
	fetch->connection.whole_timeout = true;
	fetch->settle = settle;
	fetch->owner = owner;
}

void
zaris_fetch_start(ZarisFetch *fetch, const ZarisAddress *from, const char *ip)
{
	fetch->is_over = false;
	fetch->status = ZARIS_OK;
	fetch->text[0] = '\0';
	fetch->epoch = 0;
	if (fetch->topology == NULL)
		fetch->topology = malloc(sizeof(*fetch->topology));
	if (fetch->topology == NULL)
	{
		set_failure_text(fetch, ZARIS_NO_MEMORY, "out of memory");
		fetch->is_over = true;
		return;
	}
	if (fetch->connection.stream != NULL)
		zaris_connection_fail(&fetch->connection, ZARIS_TRANSPORT_ERROR, false, false, "", 0);
	zaris_connection_set_address(&fetch->connection, from, ip);
	send_step(fetch, ZARIS_FETCH_SHARDS);
	zaris_connection_advance(&fetch->connection);
}

void
zaris_fetch_free(ZarisFetch *fetch)
{
	zaris_connection_free(&fetch->connection);
	free(fetch->topology);
}
