/*
 * test_lmdb_range.c
 *	  Pages and scans of the embedded store: order, bounds, both directions, beside a model that sorts in memory.
 */
#include "lmdb_support.h"

#define N_KEYS	 400
#define MOST_KEY 4

typedef struct Item
{
	char			key[MOST_KEY];
	size_t			len;
	ZarisRecordKind kind;
	bool			expired;
} Item;

static Item items[N_KEYS];
static int	n_items = 0;

/* The one that has the items; tests that need another one have it themselves. */
static Store  common;
static Store *store = &common;

static ZarisBytes
key_of(const Item *item)
{
	return (ZarisBytes){item->key, item->len};
}

static int
compare_items(const void *a, const void *b)
{
	return zaris_lmdb_compare(key_of(a), key_of(b));
}

/* Few letters, those at the ends of a byte's range among them, so that keys are prefixes of each other. */
static ZarisBytes
random_key(char *room, size_t most)
{
	static const char letters[] = {'\0', '\1', 'a', 'b', '\x7f', '\x80', '\xfe', '\xff'};
	size_t			  len = test_random(NULL) % (most + 1);

	for (size_t i = 0; i < len; i++)
		room[i] = letters[test_random(NULL) % sizeof(letters)];
	return (ZarisBytes){room, len};
}

static void
fill(void)
{
	for (int i = 0; i < N_KEYS; i++)
	{
		Item		   *item = &items[n_items];
		ZarisBytes		key = random_key(item->key, MOST_KEY);
		ZarisField		field = {{"f", 1}, key};
		ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, key);

		item->len = key.len;
		item->kind = i % 5 == 4 ? ZARIS_RECORD_HASH : ZARIS_RECORD_STRING;
		item->expired = i % 7 == 6;
		operation->record = item->kind;
		operation->value = key;
		operation->fields = &field;
		operation->n_fields = item->kind == ZARIS_RECORD_HASH ? 1 : 0;
		operation->expiry = item->expired ? ZARIS_EXPIRY_SET : ZARIS_EXPIRY_KEEP;
		operation->expires_at_ms = test_wall_ms + 10; /* which is past when the reading begins */
		if (run(store, operation)->status == ZARIS_OK)
			n_items++;
		zaris_batch_reset(store->batch);
	}
	qsort(items, (size_t) n_items, sizeof(items[0]), compare_items);
	test_wall_ms += 10;
}

static bool
is_wanted(const Item *item, const ZarisPageRequest *request)
{
	ZarisBytes key = key_of(item);

	if (item->expired || item->kind != request->record)
		return false;
	if (key.len < request->prefix.len ||
		(request->prefix.len > 0 && memcmp(key.data, request->prefix.data, request->prefix.len) != 0))
		return false;
	if (request->low.data != NULL && zaris_lmdb_compare(key, request->low) < 0)
		return false;
	return request->high.data == NULL || zaris_lmdb_compare(key, request->high) < 0;
}

/* The model's next key in the direction of the request, from *at on; NULL = none. */
static const Item *
next_wanted(const ZarisPageRequest *request, int *at)
{
	while (*at >= 0 && *at < n_items)
	{
		const Item *item = &items[*at];

		*at += request->backward ? -1 : 1;
		if (is_wanted(item, request))
			return item;
	}
	return NULL;
}

static void
check_record(const ZarisRecord *record, const ZarisPageRequest *request)
{
	CHECK(record->has_version && record->version > 0);
	CHECK_INT(ZARIS_NO_EXPIRY, record->expiry_ms);
	if ((request->want & ZARIS_WANT_VALUE) == 0)
		CHECK(record->value.data == NULL && record->n_fields == 0);
	else if (request->record == ZARIS_RECORD_STRING)
		CHECK(same_bytes(record->value, record->key));
	else if (request->n_fields == 0)
		CHECK(record->n_fields == 1 && same_bytes(record->fields[0].value, record->key));
	else
	{
		CHECK_INT(2, record->n_fields);
		CHECK(same_bytes(record->fields[0].name, bytes("gone")));
		CHECK(record->fields[0].value.data == NULL);
		CHECK(same_bytes(record->fields[1].value, record->key));
	}
}

/* All pages of a range: each wanted key once, in order, and none else. */
static void
check_range(ZarisPageRequest *request)
{
	int	 at = request->backward ? n_items - 1 : 0;
	char cursor[MOST_KEY + 1];

	for (;;)
	{
		ZarisOperation *operation = page(store, request);

		CHECK_STATUS(ZARIS_OK, operation->status);
		if (operation->status != ZARIS_OK)
			return;
		if (request->count > 0)
			CHECK(operation->page->n <= request->count);
		for (int i = 0; i < operation->page->n; i++)
		{
			const ZarisRecord *record = &operation->page->records[i];
			const Item		  *expected = next_wanted(request, &at);

			CHECK(expected != NULL && same_bytes(record->key, key_of(expected)));
			check_record(record, request);
		}
		if (operation->page->cursor.data == NULL)
			break;
		memcpy(cursor, operation->page->cursor.data, operation->page->cursor.len);
		request->cursor = (ZarisBytes){cursor, operation->page->cursor.len};
		zaris_batch_reset(store->batch);
	}
	CHECK(next_wanted(request, &at) == NULL);
	zaris_batch_reset(store->batch);
}

TEST(random_ranges)
{
	static const ZarisBytes names[] = {{"gone", 4}, {"f", 1}};

	for (int i = 0; i < 2000; i++)
	{
		ZarisPageRequest request = {0};
		char			 prefix[MOST_KEY],
			low[MOST_KEY + 1],
			high[MOST_KEY + 1];

		if (test_random(NULL) % 2 == 0)
			request.prefix = random_key(prefix, 2);
		if (test_random(NULL) % 2 == 0)
			request.low = random_key(low, MOST_KEY + 1);
		if (test_random(NULL) % 2 == 0)
			request.high = random_key(high, MOST_KEY + 1);
		request.backward = i % 2 == 1;
		request.record = i % 3 == 0 ? ZARIS_RECORD_HASH : ZARIS_RECORD_STRING;
		request.want = i % 4 == 0 ? 0 : ZARIS_WANT_VALUE;
		request.count = (int) (test_random(NULL) % 50);
		if (i % 5 == 0)
		{
			request.fields = names;
			request.n_fields = 2;
		}
		check_range(&request);
	}
}

/* Bounds that are longer than any key can be */
TEST(long_bounds)
{
	char			 text[700];
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING};
	char			 key[510];

	memset(key, 'a', sizeof(key));
	put(store, (ZarisBytes){key, sizeof(key)}, bytes("v"));
	memset(text, 'a', sizeof(text));
	for (int backward = 0; backward < 2; backward++)
	{
		request = (ZarisPageRequest){.record = ZARIS_RECORD_STRING, .backward = backward == 1};
		request.prefix = (ZarisBytes){text, sizeof(text)};
		CHECK_INT(0, page(store, &request)->page->n);
		request.prefix = (ZarisBytes){text, 500};
		CHECK_INT(1, page(store, &request)->page->n);
		request.low = (ZarisBytes){text, 510};
		CHECK_INT(1, page(store, &request)->page->n);
		request.low = (ZarisBytes){text, 511};
		CHECK_INT(0, page(store, &request)->page->n);
		request.low = (ZarisBytes){NULL, 0};
		request.high = (ZarisBytes){text, 511};
		CHECK_INT(1, page(store, &request)->page->n);
		request.high = (ZarisBytes){text, 510};
		CHECK_INT(0, page(store, &request)->page->n);
	}
	delete_if(store, (ZarisBytes){key, sizeof(key)}, ZARIS_IF_PRESENT, 0);
	zaris_batch_reset(store->batch);
}

/* A page is bounded in bytes, too, but never empty for it. */
TEST(pages_bounded_in_bytes)
{
	ZarisLmdbTuning	 usual = zaris_lmdb_tuning;
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .want = ZARIS_WANT_VALUE, .count = 1000};

	zaris_lmdb_tuning.page_bytes = 1;
	CHECK_INT(1, page(store, &request)->page->n);
	check_range(&request);
	zaris_lmdb_tuning.page_bytes = 300;
	request.cursor = (ZarisBytes){NULL, 0};
	CHECK(page(store, &request)->page->n > 1);
	check_range(&request);
	zaris_lmdb_tuning = usual;
}

/* A page goes on behind its cursor, whatever became of that key; what is there throughout is met once. */
TEST(changes_between_pages)
{
	Store			 store;
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .count = 2};
	ZarisOperation	*operation;

	must_open(&store, test_directory, "changes");
	for (int i = 0; i < 6; i++)
		put(&store, (ZarisBytes){&"bdfhjl"[i], 1}, bytes("v"));
	operation = page(&store, &request);
	CHECK_INT(2, operation->page->n);
	CHECK(same_bytes(operation->page->cursor, bytes("d")));
	request.cursor = operation->page->cursor;
	delete_if(&store, bytes("d"), ZARIS_IF_PRESENT, 0);
	put(&store, bytes("a"), bytes("v"));
	put(&store, bytes("e"), bytes("v"));
	operation = page(&store, &request);
	CHECK_INT(2, operation->page->n);
	CHECK(same_bytes(operation->page->records[0].key, bytes("e")));
	CHECK(same_bytes(operation->page->records[1].key, bytes("f")));
	close_store(&store);
}

/* Ends with nothing in it, and exactly as many keys as a page has: no cursor is left. */
TEST(ends)
{
	Store			 store;
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .count = 2};

	must_open(&store, test_directory, "ends");
	for (int backward = 0; backward < 2; backward++)
	{
		request.backward = backward == 1;
		CHECK_INT(0, page(&store, &request)->page->n);
		CHECK(page(&store, &request)->page->cursor.data == NULL);
	}
	put(&store, bytes(""), bytes("v"));
	put(&store, bytes("\xff\xff"), bytes("v"));
	for (int backward = 0; backward < 2; backward++)
	{
		request.backward = backward == 1;
		CHECK_INT(2, page(&store, &request)->page->n);
		CHECK(page(&store, &request)->page->cursor.data == NULL);
	}
	close_store(&store);
}

/* Many keys of no interest: a page ends without a record, but with a cursor. */
TEST(empty_pages)
{
	Store			 store;
	ZarisPageRequest request = {.record = ZARIS_RECORD_HASH, .count = 10};
	char			 keys[2500][8];
	ZarisOperation	*operation;

	must_open(&store, test_directory, "empty");
	for (int i = 0; i < 2500; i++)
	{
		operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes){keys[i], 5});
		snprintf(keys[i], sizeof(keys[i]), "%05u", (unsigned) i % 100000);
		operation->value = bytes("v");
		zaris_batch_submit(store.batch, operation);
	}
	wait_store(&store);
	operation = page(&store, &request);
	CHECK_INT(0, operation->page->n);
	CHECK(operation->page->cursor.data != NULL);
	request.cursor = operation->page->cursor;
	operation = page(&store, &request);
	request.cursor = operation->page->cursor;
	CHECK(operation->page->cursor.data != NULL);
	operation = page(&store, &request);
	CHECK(operation->page->cursor.data == NULL);
	close_store(&store);
}

/* The core's scan on top of it, with small pages that grow */
TEST(scans)
{
	for (int i = 0; i < 40; i++)
	{
		char			 prefix[2];
		ZarisScanRequest request = {.record = ZARIS_RECORD_STRING, .want = ZARIS_WANT_VALUE, .page_size = 20};
		ZarisPageRequest model = {.record = ZARIS_RECORD_STRING};
		ZarisScan		*scan;
		ZarisScanStep	 step;
		ZarisRecord		 record;
		int				 at;

		request.prefix = model.prefix = random_key(prefix, 1);
		request.backward = model.backward = i % 2 == 1;
		request.row_hint = i % 3;
		at = request.backward ? n_items - 1 : 0;
		scan = zaris_scan_begin(store->client, &request);
		while ((step = zaris_scan_next(scan, &record)) != ZARIS_SCAN_END)
		{
			const Item *expected;

			if (step == ZARIS_SCAN_WAIT)
			{
				zaris_client_turn(store->client);
				continue;
			}
			CHECK_INT(ZARIS_SCAN_ROW, step);
			if (step != ZARIS_SCAN_ROW)
				break;
			expected = next_wanted(&model, &at);
			CHECK(expected != NULL && same_bytes(record.key, key_of(expected)));
			CHECK(same_bytes(record.value, record.key));
		}
		CHECK(next_wanted(&model, &at) == NULL);
		zaris_scan_end(scan);
	}
}

int
main(void)
{
	make_test_directory();
	must_open(store, test_directory, "range");
	fill();
	RUN(random_ranges);
	RUN(long_bounds);
	RUN(pages_bounded_in_bytes);
	RUN(scans);
	close_store(store);
	RUN(changes_between_pages);
	RUN(ends);
	RUN(empty_pages);
	remove_tree(test_directory);
	return test_end();
}
