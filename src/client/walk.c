/*
 * walk.c
 *	  One node's keys of some slots, and the proof that all of them were seen (scan_inside.h, I11).
 *
 * Settling.  A slot is done if the node owned it all along: primary, owner and not open both before and after, at
 * the same epoch, which changes whenever the node gains a slot (so that a slot that left and came back does not
 * look as if it had stayed).  A slot that is migrating at the end, and was not to anybody else at the beginning, makes
 * a walk of the node that it migrates to.  All others stay for the next round.
 */
#include "client/scan_inside.h"

#include <stdlib.h>
#include <string.h>

/* beginning */

/* The pages of a scan that wants few rows begin small and grow, in case it wants more after all. */
static int
first_count(const ZarisScanRequest *request)
{
	int64_t count = request->page_size;

	if (request->row_hint > 0 && request->row_hint < count / 2)
		count = request->row_hint * 2;
	if (count < SCAN_SMALLEST_PAGE)
		count = SCAN_SMALLEST_PAGE;
	return count > request->page_size ? request->page_size : (int) count;
}

ScanWalk *
zaris_walk_begin(ZarisScan *scan, int node, ScanMethod method)
{
	ScanWalk *walk = calloc(1, sizeof(*walk));

	if (walk != NULL)
		walk->batch = zaris_batch_create(scan->client);
	if (walk == NULL || walk->batch == NULL)
	{
		free(walk);
		zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
		return NULL;
	}
	walk->scan = scan;
	walk->method = method;
	walk->node = node;
	walk->address = scan->client->map.now.nodes[node].address;
	walk->source.node = ZARIS_NO_NODE;
	walk->fresh = true;
	walk->count = first_count(&scan->request);
	walk->group = SCAN_GROUP_FIRST;
	if (method == SCAN_BY_PAGES && scan->partitioned)
		walk->state = SCAN_WALK_BEFORE;
	else
		walk->state = SCAN_WALK_WALKING;
	if (scan->ordered)
	{
		walk->cursor = scan->resume;
		walk->cursor_len = scan->resume_len;
		scan->resume = NULL;
	}
	zaris_batch_set_deadline(walk->batch, scan->deadline_us);
	zaris_link_init(&walk->link);
	zaris_link_add(&scan->walks, &walk->link);
	scan->walks_were_added = true;
	return walk;
}

static bool
is_target(const ScanWalk *walk)
{
	return walk->source.node != ZARIS_NO_NODE;
}

/* The walk is over before its time; what it found counts, but nothing is settled. */
static void
fail_walk(ScanWalk *walk, ZarisStatus status, const ZarisOperation *operation, const char *text)
{
	ZarisScan *scan = walk->scan;

	walk->failed = true;
	walk->at_end = true;
	walk->state = SCAN_WALK_OVER;
	for (int slot = 0; slot < scan->n_slots; slot++)
	{
		if (zaris_slotset_has(&walk->slots, slot) && !zaris_slotset_has(&scan->done, slot))
			zaris_slotset_add(&scan->after_failure, slot);
	}

	/* Where keys come in order nothing is sorted out as seen: the next walk goes on where this one stopped. */
	if (scan->ordered)
	{
		free(scan->resume);
		scan->resume = walk->cursor;
		scan->resume_len = walk->cursor_len;
		walk->cursor = NULL;
	}
	zaris_scan_trouble(scan, status, operation, text);
}

/* asking */

static bool
submit_at(ScanWalk *walk, int node, const ZarisAddress *address, ZarisBatch *batch, ZarisOperation *operation)
{
	ZarisMap *map = &walk->scan->client->map;

	walk->fresh = false;
	if (node >= map->now.n_nodes || !zaris_address_equal(&map->now.nodes[node].address, address))
	{
		fail_walk(walk, ZARIS_MOVED, NULL, "the node has left the cluster");
		return false;
	}
	operation->node = node;
	zaris_batch_submit(batch, operation);
	return true;
}

/* Ask a node for its state, or look whether it has come; NULL = not yet, or failed. */
static const ZarisNodeState *
take_state(ScanWalk *walk, int node, const ZarisAddress *address)
{
	ZarisOperation *asked = walk->asked;

	if (asked == NULL)
	{
		asked = zaris_batch_operation(walk->batch);
		if (asked == NULL)
		{
			zaris_scan_fail(walk->scan, ZARIS_NO_MEMORY, NULL, "");
			return NULL;
		}
		asked->kind = ZARIS_OP_NODE_STATE;
		if (submit_at(walk, node, address, walk->batch, asked))
			walk->asked = asked;
		return NULL;
	}
	if (asked->state != ZARIS_OPERATION_DONE)
		return NULL;
	walk->asked = NULL;
	if (asked->status != ZARIS_OK)
	{
		fail_walk(walk, asked->status, asked, asked->error_text);
		return NULL;
	}
	if (asked->node_state == NULL)
		fail_walk(walk, ZARIS_PROTOCOL_ERROR, asked, "a node's state is missing");
	return asked->node_state;
}

static void
submit_page(ScanWalk *walk, ScanPage *page)
{
	if (!submit_at(walk, walk->node, &walk->address, page->batch, page->ask))
	{
		zaris_page_recycle(page, walk->scan);
		return;
	}
	if (walk->newest != NULL)
		walk->newest->newer = page;
	else
		walk->pages = page;
	walk->newest = page;
	walk->n_pages++;
	walk->n_asked++;
}

static void
ask_page(ScanWalk *walk)
{
	ZarisScan			   *scan = walk->scan;
	const ZarisScanRequest *request = &scan->request;
	ScanPage			   *page = zaris_page_begin(scan);
	ZarisPageRequest	   *wanted;

	if (page == NULL)
		return;
	wanted = &page->page_request;
	memset(wanted, 0, sizeof(*wanted));
	wanted->cursor.data = walk->cursor;
	wanted->cursor.len = walk->cursor_len;
	wanted->prefix = request->prefix;
	wanted->low = request->low;
	wanted->high = request->high;
	wanted->backward = request->backward;
	wanted->count = walk->count;
	wanted->record = request->record;
	wanted->want = request->want;
	wanted->fields = request->fields;
	wanted->n_fields = request->n_fields;
	page->ask->kind = ZARIS_OP_SCAN_PAGE;
	page->ask->record = request->record;
	page->ask->scan = wanted;
	submit_page(walk, page);

	if (walk->count < request->page_size / 4)
		walk->count *= 4;
	else if (walk->count < request->page_size)
		walk->count = request->page_size;
}

static void
ask_list(ScanWalk *walk)
{
	ZarisScan *scan = walk->scan;
	ScanPage  *page = zaris_page_begin(scan);
	int		   n = 0;

	if (page == NULL)
		return;
	while (walk->next_slot < scan->n_slots && n < walk->group)
	{
		if (zaris_slotset_has(&walk->slots, walk->next_slot))
			page->slots[n++] = (uint16_t) walk->next_slot;
		walk->next_slot++;
	}
	while (walk->next_slot < scan->n_slots && !zaris_slotset_has(&walk->slots, walk->next_slot))
		walk->next_slot++;
	walk->at_end = walk->next_slot >= scan->n_slots;

	page->slot_request.slots = page->slots;
	page->slot_request.n_slots = n;
	page->slot_request.limit = SCAN_SLOT_LIMIT;
	page->slot_request.record = scan->request.record;
	page->ask->kind = ZARIS_OP_LIST_SLOTS;
	page->ask->record = scan->request.record;
	page->ask->scan = &page->slot_request;
	submit_page(walk, page);
}

/* The next page is asked for before this one is used, unless few rows are wanted. */
static bool
may_ask(const ScanWalk *walk)
{
	bool few = walk->scan->request.row_hint > 0;

	if (walk->at_end || walk->failed || walk->scan->state == SCAN_FAILED)
		return false;

	/* A page's cursor comes with the page before. */
	if (walk->method == SCAN_BY_PAGES && walk->n_asked > 0)
		return false;
	return walk->n_pages < (few ? 1 : SCAN_PAGES_AHEAD);
}

/* settling */

/* Where in state->open a slot stands. */
typedef struct OpenIndex
{
	const ZarisNodeState *state;
	int16_t				  at[ZARIS_MAX_SLOTS];
} OpenIndex;

static void
index_open(OpenIndex *index, const ZarisNodeState *state)
{
	index->state = state;
	memset(index->at, 0xff, sizeof(index->at)); /* -1 */
	for (int i = 0; i < state->n_open && i < ZARIS_MAX_SLOTS; i++)
	{
		if (state->open[i].slot < ZARIS_MAX_SLOTS)
			index->at[state->open[i].slot] = (int16_t) i;
	}
}

static const ZarisOpenSlot *
open_slot(const OpenIndex *index, int slot)
{
	return index->at[slot] < 0 ? NULL : &index->state->open[index->at[slot]];
}

static bool
owns(const ZarisNodeState *state, int slot)
{
	return state->primary && zaris_slot_bit(state->owned, slot);
}

static bool
is_migrating(const ZarisOpenSlot *open)
{
	return open != NULL && !open->importing;
}

/* Whether two looks at an open slot saw the same: the same way, the same peer. */
static bool
is_same(const ZarisOpenSlot *a, const ZarisOpenSlot *b)
{
	return a->importing == b->importing && strcmp(a->peer_id, b->peer_id) == 0;
}

static const ZarisAddress *
find_peer(const ZarisNodeState *state, const char *id)
{
	for (int i = 0; i < state->n_peers; i++)
	{
		if (strcmp(state->peers[i].id, id) == 0)
			return &state->peers[i].address;
	}
	return NULL;
}

/* The walk of the node that a slot migrates to: one for all slots that were settled together. */
static ScanWalk *
target_walk(ScanWalk *walk, const ZarisNodeState *after, const char *peer_id, ScanMethod method)
{
	ZarisScan		   *scan = walk->scan;
	const ZarisAddress *address;
	ScanWalk		   *target;
	int					node;

	for (ZarisLink *link = scan->walks.next; link != &scan->walks; link = link->next)
	{
		target = ZARIS_OF_LINK(ScanWalk, link, link);
		if (target->fresh && target->method == method && target->source.node == walk->node &&
			target->source.epoch == after->epoch && strcmp(target->source.peer_id, peer_id) == 0)
			return target;
	}
	address = find_peer(after, peer_id);
	if (address == NULL || strcmp(after->node_id, peer_id) == 0)
		return NULL;
	node = zaris_map_node(&scan->client->map, address);
	if (node < 0)
		return NULL;
	target = zaris_walk_begin(scan, node, method);
	if (target == NULL)
		return NULL;
	target->source.node = walk->node;
	target->source.address = walk->address;
	target->source.epoch = after->epoch;
	memcpy(target->source.node_id, after->node_id, sizeof(target->source.node_id));
	memcpy(target->source.peer_id, peer_id, sizeof(target->source.peer_id));
	return target;
}

static void
settle_owned(ScanWalk *walk, int slot, const OpenIndex *before, const OpenIndex *after)
{
	ZarisScan			*scan = walk->scan;
	const ZarisOpenSlot *open_before = open_slot(before, slot);
	const ZarisOpenSlot *open_after = open_slot(after, slot);
	ScanMethod			 method = zaris_slotset_has(&scan->too_large, slot) ? SCAN_BY_PAGES : SCAN_BY_LISTS;
	ScanWalk			*target;

	if (!owns(before->state, slot) || !owns(after->state, slot) || before->state->epoch != after->state->epoch ||
		strcmp(before->state->node_id, after->state->node_id) != 0)
		return;
	if (open_before == NULL && open_after == NULL)
		zaris_scan_slot_is_done(scan, slot);
	else if (is_migrating(open_after) && (open_before == NULL || is_same(open_before, open_after)))
	{
		/* Opened meanwhile or open all along: what is not here is with the peer, who is walked after us. */
		target = target_walk(walk, after->state, open_after->peer_id, method);
		if (target != NULL)
			zaris_slotset_add(&target->slots, slot);
	}
}

/*
 * On the target a slot has held still if it was being imported from the source all along, or already was the target's
 * own: in both cases no key of it can have left.
 */
static void
settle_target(ScanWalk *walk, int slot, const OpenIndex *before, const OpenIndex *after)
{
	const ZarisOpenSlot *open_before = open_slot(before, slot);
	const ZarisOpenSlot *open_after = open_slot(after, slot);

	if (!before->state->primary || !after->state->primary ||
		strcmp(before->state->node_id, walk->source.peer_id) != 0 ||
		strcmp(after->state->node_id, walk->source.peer_id) != 0)
		return;
	if (open_before != NULL && open_after != NULL && open_after->importing && is_same(open_before, open_after))
	{
		if (strcmp(open_after->peer_id, walk->source.node_id) == 0)
			zaris_slotset_add(&walk->held, slot);
	}
	else if (open_before == NULL && open_after == NULL && owns(before->state, slot) && owns(after->state, slot) &&
			 before->state->epoch == after->state->epoch)
		zaris_slotset_add(&walk->held, slot);
}

static void
settle(ScanWalk *walk, const ZarisSlotSet *slots, const ZarisNodeState *before, const ZarisNodeState *after)
{
	OpenIndex index_before;
	OpenIndex index_after;

	index_open(&index_before, before);
	index_open(&index_after, after);
	for (int slot = 0; slot < walk->scan->n_slots; slot++)
	{
		if (!zaris_slotset_has(slots, slot))
			continue;
		zaris_slotset_remove(&walk->scan->after_failure, slot);
		if (is_target(walk))
			settle_target(walk, slot, &index_before, &index_after);
		else
			settle_owned(walk, slot, &index_before, &index_after);
	}
}

/* The source again: what was migrating to the target all along is done. */
static void
settle_source(ScanWalk *walk, const ZarisNodeState *state)
{
	OpenIndex index;

	index_open(&index, state);
	for (int slot = 0; slot < walk->scan->n_slots; slot++)
	{
		const ZarisOpenSlot *open = open_slot(&index, slot);

		if (!zaris_slotset_has(&walk->held, slot) || strcmp(state->node_id, walk->source.node_id) != 0)
			continue;
		if (owns(state, slot) && state->epoch == walk->source.epoch && open != NULL && !open->importing &&
			strcmp(open->peer_id, walk->source.peer_id) == 0)
			zaris_scan_slot_is_done(walk->scan, slot);
		else if (state->primary && !owns(state, slot))
		{
			/* The migration was finished meanwhile: the next round looks for it where it went. */
			zaris_map_patch(&walk->scan->client->map, slot, walk->node);
		}
	}
}

/* what came */

static bool
keep_cursor(ScanWalk *walk, ZarisBytes cursor)
{
	char *copy;

	walk->at_end = cursor.data == NULL;
	if (walk->at_end)
		return true;
	copy = malloc(cursor.len > 0 ? cursor.len : 1);
	if (copy == NULL)
		return false;
	memcpy(copy, cursor.data, cursor.len);
	free(walk->cursor);
	walk->cursor = copy;
	walk->cursor_len = cursor.len;
	return true;
}

static void
take_page(ScanWalk *walk, ScanPage *page)
{
	if (!keep_cursor(walk, page->ask->page->cursor))
	{
		zaris_scan_fail(walk->scan, ZARIS_NO_MEMORY, NULL, "");
		return;
	}

	/* the node looks for the next page while this one's keys are judged */
	if (walk->state == SCAN_WALK_WALKING && may_ask(walk))
	{
		ask_page(walk);
		zaris_client_flush(walk->scan->client);
	}
	(void) zaris_page_take_keys(page, walk->scan, &walk->counted);
}

/* Lists of a size that makes a page or a few of keys, whatever a slot holds here. */
static void
adapt_group(ScanWalk *walk, int n_keys)
{
	int page_size = walk->scan->request.page_size;

	if (n_keys < page_size * 2 && walk->group < SCAN_GROUP_MOST)
		walk->group *= 2;
	else if (n_keys > page_size * 8 && walk->group > 1)
		walk->group /= 2;
}

static void
take_list(ScanWalk *walk, ScanPage *page)
{
	ZarisScan	 *scan = walk->scan;
	ZarisKeyPage *list = page->ask->page;
	ZarisSlotSet  group;

	if (list->before == NULL || list->after == NULL)
	{
		fail_walk(walk, ZARIS_PROTOCOL_ERROR, page->ask, "a node's state is missing");
		page->state = SCAN_PAGE_USED_UP;
		return;
	}
	zaris_slotset_clear(&group);
	for (int i = 0; i < page->slot_request.n_slots; i++)
	{
		zaris_slotset_add(&group, page->slots[i]);

		/* What lies about in a slot that the node does not own is none of the store's keys, but for a target. */
		if (is_target(walk) || owns(list->before, page->slots[i]))
			zaris_slotset_add(&walk->counted, page->slots[i]);
	}
	for (int i = 0; i < list->n_too_large; i++)
	{
		if (list->too_large[i] < scan->n_slots)
		{
			zaris_slotset_add(&scan->too_large, list->too_large[i]);
			zaris_slotset_remove(&group, list->too_large[i]);
		}
	}
	adapt_group(walk, list->n);
	if (zaris_page_take_keys(page, scan, &walk->counted))
		settle(walk, &group, list->before, list->after);
}

static void
take_answer(ScanWalk *walk, ScanPage *page)
{
	walk->n_asked--;
	if (page->ask->status == ZARIS_OK && page->ask->page != NULL)
	{
		if (walk->method == SCAN_BY_PAGES)
			take_page(walk, page);
		else
			take_list(walk, page);
		return;
	}
	page->state = SCAN_PAGE_USED_UP;
	if (walk->failed)
		return;
	if (page->ask->status == ZARIS_OK)
		fail_walk(walk, ZARIS_PROTOCOL_ERROR, page->ask, "a page is missing");
	else
		fail_walk(walk, page->ask->status, page->ask, page->ask->error_text);
}

/* Oldest first: take what came, then ask for more, then fetch, so that the next page is on its way first. */
static void
advance_pages(ScanWalk *walk)
{
	ZarisScan *scan = walk->scan;

	for (ScanPage *page = walk->pages; page != NULL; page = page->newer)
	{
		if (page->state == SCAN_PAGE_ASKED && page->ask->state == ZARIS_OPERATION_DONE)
			take_answer(walk, page);
		if (scan->state == SCAN_FAILED)
			return;
	}
	while (walk->pages != NULL && walk->pages->state == SCAN_PAGE_USED_UP)
	{
		ScanPage *page = walk->pages;

		walk->pages = page->newer;
		if (walk->pages == NULL)
			walk->newest = NULL;
		walk->n_pages--;
		zaris_page_recycle(page, scan);
	}
	while (walk->state == SCAN_WALK_WALKING && may_ask(walk))
	{
		if (walk->method == SCAN_BY_PAGES)
			ask_page(walk);
		else
			ask_list(walk);
	}
	for (ScanPage *page = walk->pages; page != NULL && scan->state != SCAN_FAILED; page = page->newer)
		zaris_page_advance(page, scan);
}

/* states */

static void
begin_walking(ScanWalk *walk)
{
	for (int slot = 0; slot < walk->scan->n_slots; slot++)
	{
		if (!zaris_slotset_has(&walk->slots, slot))
			continue;
		zaris_slotset_remove(&walk->scan->after_failure, slot);
		if (is_target(walk) || owns(walk->before, slot))
			zaris_slotset_add(&walk->counted, slot);
	}

	/* Of all that it was to have it owns nothing: there is nothing to page through. */
	walk->state = walk->counted.n > 0 ? SCAN_WALK_WALKING : SCAN_WALK_OVER;
}

static void
end_walking(ScanWalk *walk)
{
	if (walk->method == SCAN_BY_PAGES && walk->scan->partitioned)
		walk->state = SCAN_WALK_AFTER;
	else if (is_target(walk) && walk->held.n > 0)
		walk->state = SCAN_WALK_RECHECK;
	else
	{
		walk->state = SCAN_WALK_OVER;
		if (!walk->scan->partitioned)
			zaris_scan_slot_is_done(walk->scan, 0);
	}
}

static void
advance_state(ScanWalk *walk)
{
	const ZarisNodeState *state;

	switch (walk->state)
	{
		case SCAN_WALK_BEFORE:
			walk->before = take_state(walk, walk->node, &walk->address);
			if (walk->before != NULL)
				begin_walking(walk);
			break;
		case SCAN_WALK_WALKING:
			if (walk->at_end && walk->n_asked == 0)
				end_walking(walk);
			break;
		case SCAN_WALK_AFTER:
			walk->after = take_state(walk, walk->node, &walk->address);
			if (walk->after == NULL)
				break;
			settle(walk, &walk->slots, walk->before, walk->after);
			walk->state = is_target(walk) && walk->held.n > 0 ? SCAN_WALK_RECHECK : SCAN_WALK_OVER;
			break;
		case SCAN_WALK_RECHECK:
			state = take_state(walk, walk->source.node, &walk->source.address);
			if (state == NULL)
				break;
			settle_source(walk, state);
			walk->state = SCAN_WALK_OVER;
			break;
		case SCAN_WALK_OVER:
			break;
	}
}

/* Go as far as it goes without waiting. */
void
zaris_walk_advance(ScanWalk *walk)
{
	ScanWalkState state;

	do
	{
		advance_pages(walk);
		if (walk->scan->state == SCAN_FAILED)
			return;
		state = walk->state;
		advance_state(walk);
	} while (walk->state != state && walk->scan->state != SCAN_FAILED);
}

bool
zaris_walk_is_over(const ScanWalk *walk)
{
	return walk->state == SCAN_WALK_OVER && walk->pages == NULL;
}

void
zaris_walk_set_deadline(ScanWalk *walk, uint64_t deadline_us)
{
	zaris_batch_set_deadline(walk->batch, deadline_us);
	for (ScanPage *page = walk->pages; page != NULL; page = page->newer)
		zaris_page_set_deadline(page, deadline_us);
}

void
zaris_walk_free(ScanWalk *walk, bool broken)
{
	while (walk->pages != NULL)
	{
		ScanPage *page = walk->pages;

		walk->pages = page->newer;
		zaris_page_free(page, broken);
	}
	if (broken)
		zaris_batch_abandon(walk->batch);
	else
		zaris_batch_free(walk->batch);
	free(walk->cursor);
	zaris_link_remove(&walk->link);
	free(walk);
}
