/*
 * pages.c
 *	  What is asked of a node rather than of a key: a page of keys, the keys of slots, the node's state (commands.h).
 */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "stores/resp/classify.h"
#include "stores/resp/commands.h"
#include "stores/resp/nodes.h"

#define FIRST_RECORDS 256

/* SCAN */

/* The prefix as a pattern: what is special there is escaped, so that it is literal (and binary-safe). */
static bool
compose_pattern(ZarisOut *out, ZarisBytes prefix)
{
	char  *pattern = malloc(prefix.len * 2 + 1);
	size_t len = 0;

	if (pattern == NULL)
		return false;
	for (size_t i = 0; i < prefix.len; i++)
	{
		if (prefix.data[i] == '*' || prefix.data[i] == '?' || prefix.data[i] == '[' || prefix.data[i] == '\\')
			pattern[len++] = '\\';
		pattern[len++] = prefix.data[i];
	}
	pattern[len++] = '*';
	zaris_out_arg(out, pattern, len);
	free(pattern);
	return true;
}

/* Cursors are a server's own: an unsigned 64-bit number in digits, which are kept as they are. */
static bool
is_cursor(const char *data, size_t len)
{
	uint64_t number;

	return zaris_digits(data, len, UINT64_MAX, &number);
}

static ZarisStatus
compose_scan(const ZarisOperation *operation, ZarisComposer *composer, const char **problem)
{
	const ZarisPageRequest *request = operation->scan;
	bool					has_prefix = request->prefix.data != NULL && request->prefix.len > 0;

	if (request->cursor.data != NULL && !is_cursor(request->cursor.data, request->cursor.len))
	{
		*problem = "the cursor is none";
		return ZARIS_INVALID_REQUEST;
	}
	if (has_prefix && request->prefix.len > ZARIS_READER_MAX_BULK / 2)
		return ZARIS_TOO_LARGE;
	zaris_compose_command(composer, has_prefix ? 8 : 6, "SCAN");
	if (request->cursor.data != NULL)
		zaris_out_bytes(composer->out, request->cursor);
	else
		zaris_out_text(composer->out, "0");
	if (has_prefix)
	{
		zaris_out_text(composer->out, "MATCH");
		if (!compose_pattern(composer->out, request->prefix))
			return ZARIS_NO_MEMORY;
	}
	zaris_out_text(composer->out, "COUNT");
	zaris_out_integer(composer->out, request->count > 0 ? request->count : 10);
	zaris_out_text(composer->out, "TYPE");
	zaris_out_text(composer->out, zaris_kind_name(request->record));
	return ZARIS_OK;
}

/* slots */

static ZarisStatus
compose_slots(const ZarisOperation *operation, ZarisEntry *entry, ZarisComposer *composer)
{
	const ZarisSlotRequest *request = operation->scan;
	const ZarisKeyPage	   *page = operation->page;

	if (entry->stage == ZARIS_STAGE_FIRST)
	{
		zaris_compose_command(composer, 2, "CLUSTER");
		zaris_out_text(composer->out, "NODES");
		for (int i = 0; i < request->n_slots; i++)
		{
			zaris_compose_command(composer, 4, "CLUSTER");
			zaris_out_text(composer->out, "GETKEYSINSLOT");
			zaris_out_integer(composer->out, request->slots[i]);
			zaris_out_integer(composer->out, request->limit);
		}
		return ZARIS_OK;
	}

	/* The node may hold the slot without owning it; without ASKING it would not tell of its keys. */
	entry->flags |= ZARIS_ENTRY_ASKING;
	composer->asking = true;
	for (int i = 0; i < page->n; i++)
	{
		zaris_compose_command(composer, 2, "TYPE");
		zaris_out_bytes(composer->out, page->records[i].key);
	}
	zaris_compose_command(composer, 2, "CLUSTER");
	zaris_out_text(composer->out, "NODES");
	return ZARIS_OK;
}

ZarisStatus
zaris_page_compose(const ZarisOperation *operation, ZarisEntry *entry, ZarisComposer *composer, const char **problem)
{
	switch (operation->kind)
	{
		case ZARIS_OP_SCAN_PAGE:
			return compose_scan(operation, composer, problem);
		case ZARIS_OP_LIST_SLOTS:
			return compose_slots(operation, entry, composer);
		case ZARIS_OP_NODE_STATE:
			if (entry->stage == ZARIS_STAGE_ROLE)
			{
				zaris_compose_command(composer, 1, "ROLE");
				return ZARIS_OK;
			}
			zaris_compose_command(composer, 2, "CLUSTER");
			zaris_out_text(composer->out, "NODES");
			return ZARIS_OK;
		default:
			*problem = "the store does not know this kind of operation";
			return ZARIS_INVALID_REQUEST;
	}
}

/* replies */

static void *
allocate(void *context, size_t size)
{
	return zaris_batch_alloc(context, size > 0 ? size : 1);
}

static ZarisKeyPage *
page_create(ZarisOperation *operation)
{
	ZarisKeyPage *page = allocate(operation->batch, sizeof(*page));

	if (page != NULL)
		memset(page, 0, sizeof(*page));
	operation->page = page;
	return page;
}

/* Room for n more records behind page->n; *size is how many there is room for. */
static bool
page_reserve(ZarisOperation *operation, size_t n, size_t *size)
{
	ZarisKeyPage *page = operation->page;
	size_t		  needed = (size_t) page->n + n;
	size_t		  larger = *size > 0 ? *size : FIRST_RECORDS;
	ZarisRecord	 *records;

	if (needed <= *size)
		return true;
	if (needed > INT32_MAX / 2)
		return false;
	while (larger < needed)
		larger *= 2;
	records = allocate(operation->batch, larger * sizeof(*records));
	if (records == NULL)
		return false;
	if (page->n > 0)
		memcpy(records, page->records, (size_t) page->n * sizeof(*records));
	page->records = records;
	*size = larger;
	return true;
}

/*
 * Append the keys of an array to the page, in one piece of the arena: a page of a thousand keys is no thousand
 * allocations.  False: an element is no key.
 */
static bool
page_append(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *keys)
{
	ZarisKeyPage  *page = operation->page;
	ZarisReplyWalk walk = zaris_reply_walk(keys);
	size_t		   bytes = 0;
	ZarisReply	   key;
	char		  *to;

	for (size_t i = 0; i < keys->count; i++)
	{
		if (!zaris_reply_take(&walk, &key) || !zaris_reply_is_data(&key))
			return false;
		bytes += key.len;
	}
	to = allocate(operation->batch, bytes);
	if (to == NULL)
	{
		zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
		return true;
	}
	walk = zaris_reply_walk(keys);
	for (size_t i = 0; i < keys->count && zaris_reply_take(&walk, &key); i++)
	{
		ZarisRecord *record = &page->records[page->n++];

		memcpy(to, key.data, key.len);
		memset(record, 0, sizeof(*record));
		record->key = (ZarisBytes){to, key.len};
		record->expiry_ms = ZARIS_NO_EXPIRY;
		to += key.len;
	}
	return true;
}

static bool
scan_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);
	size_t		   room = 0;
	ZarisKeyPage  *page;
	ZarisReply	   cursor;
	ZarisReply	   keys;
	char		  *kept;

	if (reply->type != ZARIS_REPLY_ARRAY || reply->count != 2 ||
		!zaris_reply_take(&walk, &cursor) || !zaris_reply_is_text(&cursor) || !is_cursor(cursor.data, cursor.len) ||
		!zaris_reply_take(&walk, &keys) || (keys.type != ZARIS_REPLY_ARRAY && keys.type != ZARIS_REPLY_SET))
		return false;
	page = page_create(operation);
	kept = allocate(operation->batch, cursor.len);
	if (page == NULL || kept == NULL || !page_reserve(operation, keys.count, &room))
	{
		zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
		return true;
	}
	memcpy(kept, cursor.data, cursor.len);
	if (!(cursor.len == 1 && cursor.data[0] == '0'))
		page->cursor = (ZarisBytes){kept, cursor.len};
	return page_append(connection, operation, &keys);
}

static bool
state_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply, ZarisNodeState **state)
{
	ZarisStatus status;

	if (!zaris_reply_is_text(reply))
		return false;
	status = zaris_nodes_parse(reply->data, reply->len, &connection->address, allocate, operation->batch, state);
	if (status == ZARIS_NO_MEMORY)
		zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
	return status != ZARIS_PROTOCOL_ERROR;
}

/* CLUSTER NODES, then the keys of one slot after the other. */
static bool
listing_replied(ZarisConnection *connection, ZarisOperation *operation, uint32_t n, const ZarisReply *reply)
{
	const ZarisSlotRequest *request = operation->scan;
	ZarisKeyPage		   *page = operation->page;

	if (n == 0)
	{
		page = page_create(operation);
		if (page != NULL)
			page->too_large = allocate(operation->batch, (size_t) request->n_slots * sizeof(*page->too_large));
		if (page == NULL || page->too_large == NULL)
		{
			zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
			return true;
		}
		return state_replied(connection, operation, reply, &page->before);
	}
	if (connection->collector.answer.status != ZARIS_OK)
		return true; /* the attempt is void */
	if (reply->type != ZARIS_REPLY_ARRAY && reply->type != ZARIS_REPLY_SET)
		return false;
	if (reply->count >= (size_t) request->limit)
	{
		page->too_large[page->n_too_large++] = request->slots[n - 1];
		return true;
	}
	if (!page_reserve(operation, reply->count, &connection->collector.room))
	{
		zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
		return true;
	}
	return page_append(connection, operation, reply);
}

/*
 * The kind of each key that was listed, then the node's state again.  A key that has gone on to another node
 * meanwhile is dropped like one of another kind: the state behind it shows that its slot is open or has left, so the
 * slot does not count as listed, or is listed at its target as well.
 */
static bool
kind_replied(ZarisConnection *connection, ZarisOperation *operation, uint32_t n, const ZarisReply *reply)
{
	const ZarisSlotRequest *request = operation->scan;
	ZarisKeyPage		   *page = operation->page;
	bool					is_key = n < (uint32_t) page->n;

	if (reply->type == ZARIS_REPLY_ERROR)
	{
		const ZarisErrorRule *rule = zaris_classify(reply->data, reply->len);

		if (is_key && ((rule->flags & ZARIS_ERROR_REDIRECT) || rule->status == ZARIS_MIGRATING))
		{
			page->records[n].key.data = NULL;
			return true;
		}
		return zaris_collect_error(connection, reply);
	}
	if (!is_key)
		return state_replied(connection, operation, reply, &page->after);
	if (!zaris_reply_is_text(reply))
		return false;
	if (!zaris_reply_equals(reply, zaris_kind_name(request->record)))
		page->records[n].key.data = NULL;
	return true;
}

/* A server that is no cluster node owns all there is: slot 0 of 1. */
static bool
role_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	ZarisReplyWalk	walk = zaris_reply_walk(reply);
	ZarisNodeState *state;
	ZarisReply		role;

	/* Whoever may not ask is told by the first write. */
	bool primary = reply->type == ZARIS_REPLY_ERROR;

	if (primary && zaris_classify(reply->data, reply->len)->status != ZARIS_PERMISSION_DENIED)
		return zaris_collect_error(connection, reply);
	if (!primary)
	{
		if (reply->type != ZARIS_REPLY_ARRAY || reply->count == 0 || !zaris_reply_take(&walk, &role))
			return false;
		primary = zaris_reply_equals(&role, "master");
	}
	state = allocate(operation->batch, sizeof(*state));
	if (state == NULL)
	{
		zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
		return true;
	}
	memset(state, 0, sizeof(*state));
	state->primary = primary;
	state->owned[0] = 1;
	operation->node_state = state;
	return true;
}

bool
zaris_page_replied(ZarisConnection *connection, const ZarisEntry *entry, uint32_t n, const ZarisReply *reply)
{
	ZarisOperation *operation = entry->operation;

	if (entry->stage == ZARIS_STAGE_KINDS)
		return kind_replied(connection, operation, n, reply);
	if (entry->stage == ZARIS_STAGE_ROLE)
		return role_replied(connection, operation, reply);
	if (reply->type == ZARIS_REPLY_ERROR)
	{
		/* Not a failure: ask the other way. */
		if (operation->kind == ZARIS_OP_NODE_STATE &&
			(zaris_classify(reply->data, reply->len)->flags & ZARIS_ERROR_NO_CLUSTER))
		{
			connection->collector.unclear = true;
			return true;
		}
		return zaris_collect_error(connection, reply);
	}
	switch (operation->kind)
	{
		case ZARIS_OP_SCAN_PAGE:
			return scan_replied(connection, operation, reply);
		case ZARIS_OP_LIST_SLOTS:
			return listing_replied(connection, operation, n, reply);
		default:
			return state_replied(connection, operation, reply, &operation->node_state);
	}
}

/* Close the gaps that dropped keys left. */
static void
page_compact(ZarisKeyPage *page)
{
	int kept = 0;

	for (int i = 0; i < page->n; i++)
		if (page->records[i].key.data != NULL)
			page->records[kept++] = page->records[i];
	page->n = kept;
}

ZarisStage
zaris_page_finish(ZarisConnection *connection, const ZarisEntry *entry)
{
	const ZarisOperation *operation = entry->operation;

	if (entry->stage == ZARIS_STAGE_FIRST && operation->kind == ZARIS_OP_LIST_SLOTS)
		return ZARIS_STAGE_KINDS;
	if (entry->stage == ZARIS_STAGE_FIRST && connection->collector.unclear)
		return ZARIS_STAGE_ROLE;
	if (entry->stage == ZARIS_STAGE_KINDS)
		page_compact(operation->page);
	return ZARIS_STAGE_DONE;
}
