/*
 * fake_store.c
 *	  See fake_store.h.
 */
#include "fake_store.h"

#include <stdlib.h>

#include "client/check.h"
#include "test.h"

typedef struct FakeFlight
{
	ZarisOperation *operation;
	int				node;
	bool			asking;
	bool			flushed;
	bool			ran; /* its reply is lost */
	uint64_t		due_us;
} FakeFlight;

#define FOR_EVER_US UINT64_C(3600000000)

/* the host */

static uint64_t
fake_now(void *context)
{
	return ((ZarisStore *) context)->now_us;
}

static int64_t
fake_wall(void *context)
{
	return (int64_t) (((ZarisStore *) context)->now_us / 1000);
}

static uint64_t
fake_random(void *context)
{
	uint64_t *state = &((ZarisStore *) context)->random_state;
	uint64_t  z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* keys */

int
fake_slot(const char *key, size_t len)
{
	int slot = 0;

	for (size_t i = 0; i < len && key[i] >= '0' && key[i] <= '9'; i++)
		slot = slot * 10 + (key[i] - '0');
	return slot % ZARIS_MAX_SLOTS;
}

/* Where a key stands in the order of SCAN; the same on every node would hide mistakes. */
static uint64_t
place_of(int node, const char *key)
{
	uint64_t hash = UINT64_C(1469598103934665603) + (uint64_t) node * 977;

	for (; *key != '\0'; key++)
		hash = (hash ^ (unsigned char) *key) * UINT64_C(1099511628211);
	return (hash ^ (hash >> 29)) >> 1;
}

static int
first_at_or_after(const FakeNode *node, uint64_t place)
{
	int low = 0;
	int high = node->n_keys;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (node->keys[middle].place < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

FakeKey *
fake_find(ZarisStore *fake, int id, const char *key)
{
	FakeNode *node = &fake->nodes[id];
	uint64_t  place = place_of(id, key);

	for (int i = first_at_or_after(node, place); i < node->n_keys && node->keys[i].place == place; i++)
	{
		if (strcmp(node->keys[i].key, key) == 0)
			return &node->keys[i];
	}
	return NULL;
}

void
fake_put(ZarisStore *fake, int id, const char *key, const char *value)
{
	FakeNode *node = &fake->nodes[id];
	FakeKey	 *found = fake_find(fake, id, key);
	uint64_t  place = place_of(id, key);
	int		  at;

	if (found != NULL)
	{
		free(found->value);
		found->value = strdup(value);
		found->version++;
		return;
	}
	if (node->n_keys == node->size)
	{
		node->size = node->size == 0 ? 64 : node->size * 2;
		node->keys = realloc(node->keys, sizeof(node->keys[0]) * (size_t) node->size);
	}
	at = first_at_or_after(node, place);
	memmove(&node->keys[at + 1], &node->keys[at], sizeof(node->keys[0]) * (size_t) (node->n_keys - at));
	node->keys[at] = (FakeKey){strdup(key), strdup(value), ZARIS_RECORD_STRING, 1, place};
	node->n_keys++;
}

bool
fake_remove(ZarisStore *fake, int id, const char *key)
{
	FakeNode *node = &fake->nodes[id];
	FakeKey	 *found = fake_find(fake, id, key);

	if (found == NULL)
		return false;
	free(found->key);
	free(found->value);
	memmove(found, found + 1, sizeof(*found) * (size_t) (node->keys + node->n_keys - found - 1));
	node->n_keys--;
	return true;
}

/* the cluster */

ZarisStore *
fake_create(int n_nodes, int n_slots)
{
	ZarisStore *fake = calloc(1, sizeof(*fake));

	fake->now_us = UINT64_C(1000000000);
	fake->random_state = 42;
	fake->latency_us = 100;
	fake->map_latency_us = 300;
	fake->n_slots = n_slots;
	fake->n_nodes = n_nodes;
	fake->epoch = (uint64_t) n_nodes;
	fake->capabilities = ZARIS_CAN_PARTITION;
	fake->nodes = calloc(FAKE_NODES, sizeof(FakeNode));
	for (int i = 0; i < FAKE_NODES; i++)
	{
		FakeNode *node = &fake->nodes[i];
		char	  host[16];

		snprintf(host, sizeof(host), "node%d", i);
		zaris_address_set(&node->address, host, strlen(host), 7000 + i);
		snprintf(node->id, sizeof(node->id), "id-%d", i);
		node->epoch = (uint64_t) i + 1;
		node->known_epoch = fake->epoch;
		node->primary = true;
		node->in_map = i < n_nodes;
		node->map_status = ZARIS_OK;
		for (int slot = 0; slot < ZARIS_MAX_SLOTS; slot++)
		{
			node->owner[slot] = slot < n_slots ? (int) ((int64_t) slot * n_nodes / n_slots) : -1;
			node->migrating[slot] = node->importing[slot] = -1;
		}
	}
	return fake;
}

void
fake_destroy(ZarisStore *fake)
{
	for (int i = 0; i < FAKE_NODES; i++)
	{
		for (int j = 0; j < fake->nodes[i].n_keys; j++)
		{
			free(fake->nodes[i].keys[j].key);
			free(fake->nodes[i].keys[j].value);
		}
		free(fake->nodes[i].keys);
	}
	free(fake->nodes);
	free(fake->flights);
	free(fake);
}

void
fake_open_slot(ZarisStore *fake, int slot, int from, int to)
{
	fake->nodes[to].importing[slot] = from;
	fake->nodes[from].migrating[slot] = to;
}

void
fake_move_keys(ZarisStore *fake, int slot, int from, int to, int most)
{
	FakeNode *node = &fake->nodes[from];

	for (int i = 0; i < node->n_keys && most > 0;)
	{
		FakeKey *key = &node->keys[i];

		if (fake_slot(key->key, strlen(key->key)) != slot)
		{
			i++;
			continue;
		}
		fake_put(fake, to, key->key, key->value);
		fake_find(fake, to, key->key)->kind = key->kind;
		fake_find(fake, to, key->key)->version = key->version;
		fake_remove(fake, from, key->key);
		most--;
	}
}

void
fake_hand_over(ZarisStore *fake, int slot, int from, int to)
{
	fake->epoch++;
	fake->nodes[to].epoch = fake->epoch;
	fake->nodes[to].importing[slot] = -1;
	fake->nodes[from].migrating[slot] = -1;
	for (int i = 0; i < FAKE_NODES; i++)
	{
		fake->nodes[i].owner[slot] = to;
		fake->nodes[i].known_epoch = fake->epoch;
	}
}

void
fake_move_slot(ZarisStore *fake, int slot, int from, int to)
{
	fake_open_slot(fake, slot, from, to);
	fake_move_keys(fake, slot, from, to, INT32_MAX);
	fake_hand_over(fake, slot, from, to);
}

void
fake_fail_over(ZarisStore *fake, int dead, int to)
{
	fake->nodes[dead].dead = true;
	fake->nodes[dead].in_map = false;
	fake->nodes[to].in_map = true;
	fake->epoch++;
	fake->nodes[to].epoch = fake->epoch;
	for (int slot = 0; slot < fake->n_slots; slot++)
	{
		if (fake->nodes[dead].owner[slot] != dead)
			continue;
		for (int i = 0; i < FAKE_NODES; i++)
			fake->nodes[i].owner[slot] = to;
	}
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].known_epoch = fake->epoch;
	for (int i = 0; i < fake->nodes[dead].n_keys; i++)
		fake_put(fake, to, fake->nodes[dead].keys[i].key, fake->nodes[dead].keys[i].value);
}

/* scripts */

static ZarisAnswer *
add_script(ZarisStore *fake, int node)
{
	FakeScript *script = &fake->scripts[fake->n_scripts++];

	ZARIS_ASSERT(fake->n_scripts <= 64);
	memset(script, 0, sizeof(*script));
	script->node = node;
	return &script->answer;
}

void
fake_say(ZarisStore *fake, int node, ZarisStatus status, ZarisOutcome outcome, const char *text)
{
	ZarisAnswer *answer = add_script(fake, node);

	answer->status = status;
	answer->outcome = outcome;
	answer->text = text;
	answer->text_len = text != NULL ? strlen(text) : 0;
}

void
fake_say_redirect(ZarisStore *fake, int node, ZarisRedirectKind kind, int slot, int to)
{
	ZarisAnswer *answer = add_script(fake, node);

	answer->status = kind == ZARIS_REDIRECT_ASK ? ZARIS_OWNERSHIP_CHANGING : ZARIS_MOVED;
	answer->outcome = ZARIS_OUTCOME_REJECTED;
	answer->redirect = kind;
	answer->slot = slot;
	if (to >= 0)
		answer->target = fake->nodes[to].address;
	else
		answer->redirect = ZARIS_REDIRECT_NONE;
}

/* The first answer that is written for this node and was not given yet. */
static bool
take_script(ZarisStore *fake, int node, ZarisAnswer *answer, bool *applies)
{
	for (int i = 0; i < fake->n_scripts; i++)
	{
		if (fake->scripts[i].node != node)
			continue;
		*answer = fake->scripts[i].answer;
		*applies = fake->scripts[i].applies;
		memmove(&fake->scripts[i], &fake->scripts[i + 1],
				sizeof(fake->scripts[0]) * (size_t) (fake->n_scripts - i - 1));
		fake->n_scripts--;
		return true;
	}
	return false;
}

/* commands that address a node */

static ZarisNodeState *
make_state(ZarisStore *fake, int id, ZarisBatch *batch)
{
	FakeNode	   *node = &fake->nodes[id];
	ZarisNodeState *state = zaris_batch_alloc(batch, sizeof(*state));

	memset(state, 0, sizeof(*state));
	state->epoch = node->epoch;
	state->primary = node->primary;
	memcpy(state->node_id, node->id, sizeof(state->node_id));
	for (int slot = 0; slot < fake->n_slots; slot++)
		state->n_open += node->migrating[slot] >= 0 || node->importing[slot] >= 0;
	state->open = zaris_batch_alloc(batch, sizeof(state->open[0]) * (size_t) state->n_open);
	state->n_open = 0;
	for (int slot = 0; slot < fake->n_slots; slot++)
	{
		int peer = node->migrating[slot] >= 0 ? node->migrating[slot] : node->importing[slot];

		if (node->owner[slot] == id && node->primary)
			state->owned[slot / 8] |= (uint8_t) (1 << (slot % 8));
		if (peer < 0)
			continue;
		state->open[state->n_open].slot = (uint16_t) slot;
		state->open[state->n_open].importing = node->importing[slot] >= 0;
		memcpy(state->open[state->n_open].peer_id, fake->nodes[peer].id, sizeof(state->open[0].peer_id));
		state->n_open++;
	}
	state->peers = zaris_batch_alloc(batch, sizeof(state->peers[0]) * FAKE_NODES);
	for (int i = 0; i < FAKE_NODES; i++)
	{
		memcpy(state->peers[i].id, fake->nodes[i].id, sizeof(state->peers[i].id));
		state->peers[i].address = fake->nodes[i].address;
	}
	state->n_peers = FAKE_NODES;
	return state;
}

static ZarisBytes
keep(ZarisBatch *batch, const char *text)
{
	size_t len = strlen(text);
	char  *copy = zaris_batch_alloc(batch, len);

	memcpy(copy, text, len);
	return (ZarisBytes){copy, len};
}

static void
add_record(ZarisStore *fake, ZarisKeyPage *page, ZarisBatch *batch, const FakeKey *key)
{
	ZarisRecord *record = &page->records[page->n++];

	memset(record, 0, sizeof(*record));
	record->key = keep(batch, key->key);
	record->expiry_ms = ZARIS_NO_EXPIRY;
	if (fake->capabilities & ZARIS_CAN_RECORDS)
	{
		record->value = keep(batch, key->value);
		record->version = key->version;
		record->has_version = true;
	}
}

static ZarisKeyPage *
make_page(ZarisStore *fake, int id, ZarisBatch *batch, const ZarisPageRequest *request)
{
	FakeNode	 *node = &fake->nodes[id];
	ZarisKeyPage *page = zaris_batch_alloc(batch, sizeof(*page));
	uint64_t	  from = 0;
	int			  at;

	memset(page, 0, sizeof(*page));
	page->records = zaris_batch_alloc(batch, sizeof(page->records[0]) * (size_t) (request->count * 2 + 2));
	if (request->cursor.data != NULL)
	{
		char text[32];

		snprintf(text, sizeof(text), "%.*s", (int) request->cursor.len, request->cursor.data);
		from = strtoull(text, NULL, 10);
	}
	at = first_at_or_after(node, from);
	for (int looked = 0; at < node->n_keys && looked < request->count; looked++, at++)
	{
		const FakeKey *key = &node->keys[at];

		if (strncmp(key->key, request->prefix.len > 0 ? request->prefix.data : "", request->prefix.len) != 0)
			continue;
		if (key->kind != request->record)
			continue;
		add_record(fake, page, batch, key);
		if ((int) (fake_random(fake) % 100) < fake->duplicates)
			add_record(fake, page, batch, key);
	}
	if (at < node->n_keys)
	{
		char text[32];

		snprintf(text, sizeof(text), "%llu", (unsigned long long) node->keys[at].place);
		page->cursor = keep(batch, text);
	}
	return page;
}

static ZarisKeyPage *
list_slots(ZarisStore *fake, int id, ZarisBatch *batch, const ZarisSlotRequest *request)
{
	FakeNode	 *node = &fake->nodes[id];
	ZarisKeyPage *page = zaris_batch_alloc(batch, sizeof(*page));
	static int	  count[ZARIS_MAX_SLOTS];
	static bool	  wanted[ZARIS_MAX_SLOTS];
	int			  limit = fake->slot_limit > 0 ? fake->slot_limit : request->limit;

	memset(page, 0, sizeof(*page));
	memset(count, 0, sizeof(count));
	memset(wanted, 0, sizeof(wanted));
	page->before = make_state(fake, id, batch);
	page->records = zaris_batch_alloc(batch, sizeof(page->records[0]) * (size_t) node->n_keys);
	page->too_large = zaris_batch_alloc(batch, sizeof(page->too_large[0]) * (size_t) request->n_slots);
	for (int i = 0; i < node->n_keys; i++)
		count[fake_slot(node->keys[i].key, strlen(node->keys[i].key))]++;
	for (int i = 0; i < request->n_slots; i++)
	{
		if (count[request->slots[i]] >= limit)
			page->too_large[page->n_too_large++] = request->slots[i];
		else
			wanted[request->slots[i]] = true;
	}
	for (int i = 0; i < node->n_keys; i++)
	{
		if (wanted[fake_slot(node->keys[i].key, strlen(node->keys[i].key))] && node->keys[i].kind == request->record)
			add_record(fake, page, batch, &node->keys[i]);
	}
	page->after = make_state(fake, id, batch);
	return page;
}

/* commands by key */

/* Whether the node takes a command for a key; else *answer says where to go. */
static bool
owns_key(ZarisStore *fake, int id, const char *key, bool asking, ZarisAnswer *answer)
{
	FakeNode *node = &fake->nodes[id];
	int		  slot = fake->n_slots > 1 ? fake_slot(key, strlen(key)) : 0;

	answer->outcome = ZARIS_OUTCOME_REJECTED;
	answer->slot = slot;
	if (node->owner[slot] == id)
	{
		if (fake_find(fake, id, key) != NULL || node->migrating[slot] < 0)
			return true;
		answer->status = ZARIS_OWNERSHIP_CHANGING;
		answer->redirect = ZARIS_REDIRECT_ASK;
		answer->target = fake->nodes[node->migrating[slot]].address;
		return false;
	}
	if (node->importing[slot] >= 0 && asking)
		return true;
	if (node->owner[slot] < 0)
	{
		answer->status = ZARIS_UNAVAILABLE;
		answer->text = "CLUSTERDOWN Hash slot not served";
		answer->text_len = strlen(answer->text);
		return false;
	}
	answer->status = ZARIS_MOVED;
	answer->redirect = ZARIS_REDIRECT_MOVED;
	answer->target = fake->nodes[node->owner[slot]].address;
	return false;
}

static ZarisStatus
run_put(ZarisStore *fake, int id, ZarisOperation *operation, const char *key)
{
	FakeKey *found = fake_find(fake, id, key);
	char	 value[64];

	if (operation->precondition == ZARIS_IF_ABSENT && found != NULL)
		return ZARIS_CONFLICT;
	if (operation->precondition == ZARIS_IF_PRESENT && found == NULL)
		return ZARIS_NOT_FOUND;
	if (operation->precondition == ZARIS_IF_MATCH_VERSION &&
		(found == NULL || found->version != operation->match_version))
		return ZARIS_CONFLICT;
	if (operation->kind == ZARIS_OP_DELETE)
		fake_remove(fake, id, key);
	else
	{
		snprintf(value, sizeof(value), "%.*s", (int) operation->value.len, operation->value.data);
		fake_put(fake, id, key, value);
		operation->version = fake_find(fake, id, key)->version;
		operation->has_version = true;
	}
	return ZARIS_OK;
}

static ZarisStatus
run_get(ZarisStore *fake, int id, ZarisOperation *operation, const char *key)
{
	FakeKey *found = fake_find(fake, id, key);

	if (found == NULL)
		return ZARIS_NOT_FOUND;
	if (found->kind != operation->record)
		return ZARIS_WRONG_TYPE;
	operation->result = keep(operation->batch, found->value);
	operation->version = found->version;
	operation->has_version = true;
	for (int i = 0; i < operation->n_fields; i++)
		operation->fields[i].value = operation->result;
	return ZARIS_OK;
}

static void
run_command(ZarisStore *fake, int id, ZarisOperation *operation, bool asking, ZarisAnswer *answer)
{
	char key[256];
	bool applies = true;

	memset(answer, 0, sizeof(*answer));
	if (fake->before != NULL)
		fake->before(fake, id, operation);
	if (take_script(fake, id, answer, &applies) && !applies)
		return;
	fake->n_runs++;
	answer->outcome = ZARIS_OUTCOME_APPLIED;
	switch (operation->kind)
	{
		case ZARIS_OP_NODE_STATE:
			operation->node_state = make_state(fake, id, operation->batch);
			return;
		case ZARIS_OP_SCAN_PAGE:
			operation->page = make_page(fake, id, operation->batch, operation->scan);
			return;
		case ZARIS_OP_LIST_SLOTS:
			operation->page = list_slots(fake, id, operation->batch, operation->scan);
			return;
		default:
			break;
	}
	snprintf(key, sizeof(key), "%.*s", (int) operation->key.len, operation->key.data);
	if (!owns_key(fake, id, key, asking, answer))
		return;
	answer->outcome = ZARIS_OUTCOME_APPLIED;
	if (operation->kind == ZARIS_OP_GET)
		answer->status = run_get(fake, id, operation, key);
	else
		answer->status = run_put(fake, id, operation, key);
}

/* the driver */

static ZarisStore *opening; /* what the next open() hands out */

static ZarisStatus
driver_open(const ZarisStoreConfig *config, ZarisStore **store, const char **problem)
{
	*store = opening;
	opening->client = config->client;
	opening->events = config->events;
	opening->loop = config->loop;
	return ZARIS_OK;
}

static void
driver_close(ZarisStore *fake)
{
	fake->client = NULL;
	fake->n_flights = 0;
	fake->map_asked = false;
}

static void
driver_fetch_map(ZarisStore *fake, const ZarisAddress *from)
{
	CHECK(!fake->map_asked); /* at most one at a time */
	fake->map_asked = true;
	fake->map_from = *from;
	fake->map_due_us = fake->now_us + fake->map_latency_us;
	if (fake->n_fetched < 256)
		fake->fetched[fake->n_fetched++] = *from;
}

static int
id_of(ZarisStore *fake, const ZarisAddress *address)
{
	for (int i = 0; i < FAKE_NODES; i++)
	{
		if (zaris_address_equal(&fake->nodes[i].address, address))
			return i;
	}
	return -1;
}

static void
driver_submit(ZarisStore *fake, int id, const ZarisNode *node, ZarisOperation *operation, bool asking)
{
	FakeSend *send = &fake->log[fake->n_log < FAKE_LOG ? fake->n_log++ : FAKE_LOG - 1];

	if (fake->n_flights == fake->flights_size)
	{
		fake->flights_size = fake->flights_size == 0 ? 64 : fake->flights_size * 2;
		fake->flights = realloc(fake->flights, sizeof(FakeFlight) * (size_t) fake->flights_size);
	}
	send->node = id_of(fake, &node->address);
	send->kind = operation->kind;
	send->asking = asking;
	send->at_us = fake->now_us;
	snprintf(send->key, sizeof(send->key), "%.*s", (int) operation->key.len,
			 operation->key.data != NULL ? operation->key.data : "");
	CHECK(send->node >= 0);
	fake->flights[fake->n_flights++] = (FakeFlight){operation, send->node, asking, false, false, UINT64_MAX};
}

static void
take_flight(ZarisStore *fake, int at)
{
	memmove(&fake->flights[at], &fake->flights[at + 1], sizeof(FakeFlight) * (size_t) (fake->n_flights - at - 1));
	fake->n_flights--;
}

static void
answer_flight(ZarisStore *fake, int at, const ZarisAnswer *answer)
{
	ZarisOperation *operation = fake->flights[at].operation;

	take_flight(fake, at);
	fake->callbacks_at++;
	fake->events->answered(fake->client, operation, answer);
}

static void
answer_with(ZarisStore *fake, int at, ZarisStatus status, ZarisOutcome outcome, const char *text)
{
	ZarisAnswer answer = {0};

	answer.status = status;
	answer.outcome = outcome;
	answer.text = text;
	answer.text_len = strlen(text);
	answer_flight(fake, at, &answer);
}

static void
deliver(ZarisStore *fake, int at)
{
	FakeFlight	flight = fake->flights[at];
	FakeNode   *node = &fake->nodes[flight.node];
	ZarisAnswer answer;

	if (node->dead)
	{
		answer_with(fake, at, ZARIS_CONNECT_ERROR, ZARIS_OUTCOME_NOT_SENT, "connection refused");
		return;
	}
	run_command(fake, flight.node, flight.operation, flight.asking, &answer);
	if (node->loses_replies)
		answer_with(fake, at, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "connection reset by peer");
	else
		answer_flight(fake, at, &answer);
}

static bool
is_deliverable(const ZarisStore *fake, const FakeFlight *flight)
{
	const FakeNode *node = &fake->nodes[flight->node];

	return flight->flushed && !node->hangs && !node->never_connects;
}

static void
deliver_due(ZarisStore *fake)
{
	/* One answer may end others, so the list is looked at anew after each. */
	for (;;)
	{
		int at = 0;

		while (at < fake->n_flights &&
			   !(is_deliverable(fake, &fake->flights[at]) && fake->flights[at].due_us <= fake->now_us))
			at++;
		if (at == fake->n_flights)
			return;
		deliver(fake, at);
	}
}

static void
driver_flush(ZarisStore *fake)
{
	fake->n_flushes++;
	for (int i = 0; i < fake->n_flights; i++)
	{
		if (fake->flights[i].flushed)
			continue;
		fake->flights[i].flushed = true;
		fake->flights[i].due_us = fake->now_us + (fake->answers_in_flush ? 0 : fake->latency_us);
	}
	if (fake->answers_in_flush)
		deliver_due(fake);
}

static void
driver_detach(ZarisStore *fake, struct ZarisBatch *batch, bool broken)
{
	fake->n_detached++;
	fake->n_broken += broken;
	for (int i = 0; i < fake->n_flights;)
	{
		if (fake->flights[i].operation->batch == batch)
			take_flight(fake, i);
		else
			i++;
	}
}

static void
driver_disconnect(ZarisStore *fake, int id)
{
	int node = id_of(fake, &zaris_client_map(fake->client)->now.nodes[id].address);

	fake->n_disconnects++;
	if (fake->breaks_off_later)
		return;
	for (int i = 0; i < fake->n_flights;)
	{
		if (fake->flights[i].node != node)
			i++;
		else if (fake->flights[i].flushed && !fake->nodes[node].never_connects)
			answer_with(fake, i, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "broken off");
		else
			answer_with(fake, i, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_NOT_SENT, "broken off");
	}
}

static int
driver_connections(ZarisStore *fake)
{
	return fake->n_nodes;
}

static ZarisStoreDriver driver = {
	ZARIS_STORE_VERSION, "fake", 0, ZARIS_SCHEME_RESP, driver_open, driver_close, driver_fetch_map, fake_slot,
	driver_submit, driver_flush, driver_detach, driver_disconnect, NULL, driver_connections};

/* the map */

static void
answer_map(ZarisStore *fake)
{
	static ZarisTopology topology;
	int					 id = id_of(fake, &fake->map_from);
	FakeNode			*node = &fake->nodes[id];

	fake->map_asked = false;
	if (node->dead)
	{
		fake->events->map_fetched(fake->client, ZARIS_CONNECT_ERROR, NULL, "connection refused");
		return;
	}
	if (node->map_status != ZARIS_OK)
	{
		fake->events->map_fetched(fake->client, node->map_status, NULL, node->map_text);
		return;
	}
	zaris_topology_reset(&topology, fake->n_slots);
	topology.epoch = fake->n_slots > 1 ? node->known_epoch : 0;
	for (int i = 0; i < FAKE_NODES; i++)
	{
		const ZarisAddress *address = &fake->nodes[i].address;

		if (fake->nodes[i].in_map)
			zaris_topology_add_node(&topology, address->host, strlen(address->host), address->port);
	}
	for (int slot = 0; slot < fake->n_slots; slot++)
	{
		const ZarisAddress *owner;

		if (node->owner[slot] < 0)
			continue;
		owner = &fake->nodes[node->owner[slot]].address;
		zaris_topology_assign(&topology, slot, slot,
							  zaris_topology_add_node(&topology, owner->host, strlen(owner->host), owner->port));
	}
	fake->events->map_fetched(fake->client, ZARIS_OK, &topology, NULL);
}

/* turning */

static void
fired(void *context)
{
	ZarisStore *fake = context;
	int			map_node = fake->map_asked ? id_of(fake, &fake->map_from) : -1;

	if (map_node >= 0 && fake->map_due_us <= fake->now_us && !fake->nodes[map_node].map_hangs)
		answer_map(fake);
	deliver_due(fake);
}

void
fake_turn(ZarisStore *fake)
{
	/* The real loop runs on the real clock: a timer that is always due lets the virtual one have its say. */
	zaris_timer_set(fake->timer, 1);
	zaris_client_turn(fake->client);
	zaris_timer_stop(fake->timer);
}

static uint64_t
next_due(const ZarisStore *fake)
{
	uint64_t due = UINT64_MAX;

	for (int i = 0; i < fake->n_flights; i++)
	{
		if (is_deliverable(fake, &fake->flights[i]) && fake->flights[i].due_us < due)
			due = fake->flights[i].due_us;
	}
	if (fake->map_asked && !fake->nodes[id_of((ZarisStore *) fake, &fake->map_from)].map_hangs &&
		fake->map_due_us < due)
		due = fake->map_due_us;
	return due;
}

/* The moment when something is to be done next: by the store, or by the client. */
static uint64_t
next_moment(ZarisStore *fake)
{
	int		 timeout = zaris_client_timeout_ms(fake->client);
	uint64_t due = next_due(fake);

	if (timeout == 0)
		return fake->now_us;
	if (timeout > 0 && fake->now_us + (uint64_t) timeout * 1000 < due)
		due = fake->now_us + (uint64_t) timeout * 1000;
	return due;
}

bool
fake_run(ZarisStore *fake, bool (*is_done)(void *context), void *context)
{
	uint64_t end = fake->now_us + FOR_EVER_US;
	int		 idle = 0;

	for (;;)
	{
		uint64_t next;

		fake_turn(fake);
		if (is_done(context))
			return true;
		next = next_moment(fake);
		idle = next > fake->now_us ? 0 : idle + 1;
		if (next > end || idle > 1000)
			return false;
		if (next > fake->now_us)
			fake->now_us = next;
	}
}

static bool
batch_is_done(void *batch)
{
	return zaris_batch_is_done(batch);
}

bool
fake_run_batch(ZarisStore *fake, ZarisBatch *batch)
{
	return fake_run(fake, batch_is_done, batch);
}

void
fake_advance(ZarisStore *fake, uint64_t us)
{
	uint64_t end = fake->now_us + us;
	int		 idle = 0;

	for (;;)
	{
		uint64_t next;

		fake_turn(fake);
		next = next_moment(fake);
		idle = next > fake->now_us ? 0 : idle + 1;
		CHECK(idle < 1000);
		if (next > end || idle >= 1000)
			break;
		fake->now_us = next > fake->now_us ? next : fake->now_us;
	}
	fake->now_us = end;
	fake_turn(fake);
}

/* opening */

ZarisClient *
fake_open(ZarisStore *fake, int n_seeds)
{
	ZarisClientOptions options = {0};
	ZarisHost		   host = {fake, fake_now, fake_wall, fake_random, NULL};
	ZarisLoop		  *loop = zaris_loop_create();
	ZarisClient		  *client;
	const char		  *problem = NULL;

	options.url.n_seeds = n_seeds;
	for (int i = 0; i < n_seeds; i++)
		options.url.seeds[i] = fake->nodes[i].address;
	options.connect_timeout_us = 5000000;
	options.map_refresh_wait_us = 15000000;
	driver.capabilities = fake->capabilities;
	opening = fake;
	client = zaris_client_open(&driver, &options, &host, loop, &problem);
	CHECK(client != NULL);
	fake->timer = zaris_timer_create(loop, fired, fake);
	return client;
}

void
fake_close(ZarisStore *fake, ZarisClient *client)
{
	zaris_client_close(client);
	zaris_loop_destroy(fake->loop);
	fake_destroy(fake);
}

/* short forms */

ZarisOperation *
fake_get(ZarisBatch *batch, const char *key)
{
	ZarisOperation *operation = zaris_batch_operation(batch);

	operation->kind = ZARIS_OP_GET;
	operation->record = ZARIS_RECORD_STRING;
	operation->key = (ZarisBytes){key, strlen(key)};
	operation->want = ZARIS_WANT_VALUE;
	zaris_batch_submit(batch, operation);
	return operation;
}

ZarisOperation *
fake_put_op(ZarisBatch *batch, const char *key, const char *value, ZarisPrecondition precondition, int64_t version)
{
	ZarisOperation *operation = zaris_batch_operation(batch);

	operation->kind = ZARIS_OP_PUT;
	operation->record = ZARIS_RECORD_STRING;
	operation->key = (ZarisBytes){key, strlen(key)};
	operation->value = (ZarisBytes){value, strlen(value)};
	operation->precondition = precondition;
	operation->match_version = version;
	zaris_batch_submit(batch, operation);
	return operation;
}

int
fake_sends(const ZarisStore *fake, int node, ZarisOperationKind kind)
{
	int n = 0;

	for (int i = 0; i < fake->n_log; i++)
		n += fake->log[i].kind == kind && (node < 0 || fake->log[i].node == node);
	return n;
}
