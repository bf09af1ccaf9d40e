/*
 * page.c
 *	  ScanPage: the next records of a range, in bytewise order of their keys (request.h).
 *
 * A page begins behind the cursor, which is the last key that the page before looked at, so records that come and go
 * in between disturb nothing: every key that is there throughout is met once (I11).
 *
 *		prefix				low				cursor ->		high			end of the prefix
 *		  |------------------|================>>>>>>>>>>>>>>>|---------------|			forward
 *							 |<<<<<<<<<<<<<<<================|						backward
 *											<- cursor
 */
#include "stores/lmdb/request.h"

#include <string.h>

#include "client/client.h"

#define DEFAULT_COUNT 1000
#define MOST_COUNT	  65536
#define LEAST_LOOKS	  1000 /* keys to look at before a page may end without a record */
#define FIRST_ROOM	  64

typedef struct Page
{
	ZarisLmdbTransaction   *t;
	ZarisOperation		   *operation;
	const ZarisPageRequest *request;
	ZarisAnswer			   *answer;
	ZarisBytes				from;  /* forward: the first key that may be, inclusive unless it is the cursor */
	bool					after; /* ... then behind it */
	ZarisBytes				below; /* backward: keys less than this; nil = open */
	ZarisBytes			   *names; /* of wanted fields, copied */
	ZarisRecord			   *records;
	int						n;
	int						room;
	int						count;
	int						looked;
	size_t					size;
} Page;

static bool
begins_with(ZarisBytes key, ZarisBytes prefix)
{
	return key.len >= prefix.len && (prefix.len == 0 || memcmp(key.data, prefix.data, prefix.len) == 0);
}

/* The least bytes that are greater than everything with the prefix; nil when there are none. False: out of memory. */
static bool
end_of_prefix(Page *page, ZarisBytes prefix, ZarisBytes *end)
{
	size_t len = prefix.len;
	char  *room;

	*end = (ZarisBytes){NULL, 0};
	while (len > 0 && (unsigned char) prefix.data[len - 1] == 0xff)
		len--;
	if (len == 0)
		return true;
	room = zaris_batch_alloc(page->operation->batch, len);
	if (room == NULL)
		return false;
	memcpy(room, prefix.data, len);
	room[len - 1]++;
	*end = (ZarisBytes){room, len};
	return true;
}

static void
lower_to(ZarisBytes *below, ZarisBytes bound)
{
	if (bound.data != NULL && (below->data == NULL || zaris_lmdb_compare(bound, *below) < 0))
		*below = bound;
}

/* Where the page begins. False: out of memory. */
static bool
set_bounds(Page *page)
{
	const ZarisPageRequest *request = page->request;
	ZarisBytes				prefix_end;

	page->from = request->prefix;
	if (request->low.data != NULL && zaris_lmdb_compare(request->low, page->from) > 0)
		page->from = request->low;
	if (!request->backward)
	{
		if (request->cursor.data != NULL && zaris_lmdb_compare(request->cursor, page->from) >= 0)
		{
			page->from = request->cursor;
			page->after = true;
		}
		return true;
	}

	if (!end_of_prefix(page, request->prefix, &prefix_end))
		return false;
	lower_to(&page->below, prefix_end);
	lower_to(&page->below, request->high);
	lower_to(&page->below, request->cursor);
	return true;
}

/* A stored key without our prefix byte. False: it is none of the records' keys. */
static bool
user_key(const MDB_val *stored, ZarisBytes *key)
{
	const char *data = stored->mv_data;

	if (stored->mv_size < 1 || data[0] != ZARIS_LMDB_KEY_PREFIX)
		return false;
	key->data = data + 1;
	key->len = stored->mv_size - 1;
	return true;
}

/*
 * The first stored key at or behind the given bytes.  A bound may be longer than any key: then its beginning is
 * looked for, and the comparisons of the callers, which use the whole bound, pass over what comes before it.
 */
static int
seek(Page *page, ZarisBytes bytes, MDB_val *key, MDB_val *value)
{
	ZarisLmdbKey stored;
	size_t		 most = page->t->environment->max_key - 1;
	size_t		 len = bytes.len < most ? bytes.len : most;

	if (len > sizeof(stored.bytes) - 1)
		len = sizeof(stored.bytes) - 1;
	stored.bytes[0] = ZARIS_LMDB_KEY_PREFIX;
	if (len > 0)
		memcpy(stored.bytes + 1, bytes.data, len);
	*key = (MDB_val){len + 1, stored.bytes};
	return mdb_cursor_get(page->t->cursor, key, value, MDB_SET_RANGE);
}

static int
first_forward(Page *page, MDB_val *key, MDB_val *value)
{
	ZarisBytes at;
	int		   code = seek(page, page->from, key, value);

	while (code == 0 && user_key(key, &at))
	{
		int order = zaris_lmdb_compare(at, page->from);

		if (order > 0 || (order == 0 && !page->after))
			break;
		code = mdb_cursor_get(page->t->cursor, key, value, MDB_NEXT);
	}
	return code;
}

static int
first_backward(Page *page, MDB_val *key, MDB_val *value)
{
	const char behind = ZARIS_LMDB_KEY_PREFIX + 1;
	ZarisBytes at;
	int		   code;

	if (page->below.data != NULL)
		code = seek(page, page->below, key, value);
	else
	{
		*key = (MDB_val){1, (void *) &behind};
		code = mdb_cursor_get(page->t->cursor, key, value, MDB_SET_RANGE);
	}
	if (code == MDB_NOTFOUND)
		code = mdb_cursor_get(page->t->cursor, key, value, MDB_LAST);
	while (code == 0 && (!user_key(key, &at) ||
						 (page->below.data != NULL && zaris_lmdb_compare(at, page->below) >= 0)))
		code = mdb_cursor_get(page->t->cursor, key, value, MDB_PREV);
	return code;
}

/* Keys come in order, so the first one outside is the end. */
static bool
is_inside(const Page *page, ZarisBytes key)
{
	if (!begins_with(key, page->request->prefix))
		return false;
	if (page->request->backward)
		return zaris_lmdb_compare(key, page->from) >= 0;
	return page->request->high.data == NULL || zaris_lmdb_compare(key, page->request->high) < 0;
}

static bool
is_full(const Page *page)
{
	if (page->n >= page->count || page->size >= zaris_lmdb_tuning.page_bytes)
		return true;
	return page->looked >= (page->count > LEAST_LOOKS ? page->count : LEAST_LOOKS);
}

static bool
no_memory(Page *page)
{
	zaris_lmdb_answer(page->answer, ZARIS_NO_MEMORY, NULL);
	return false;
}

/*
 * Room for one record more. The old room stays in the arena until the batch is reset: no more than the new one's
 * size.
 */
static ZarisRecord *
add_record(Page *page)
{
	if (page->n >= page->room)
	{
		int			 room = page->room == 0 ? FIRST_ROOM : page->room * 2;
		ZarisRecord *records = zaris_batch_alloc(page->operation->batch, sizeof(ZarisRecord) * (size_t) room);

		if (records == NULL)
			return NULL;
		if (page->n > 0)
			memcpy(records, page->records, sizeof(ZarisRecord) * (size_t) page->n);
		page->records = records;
		page->room = room;
	}
	memset(&page->records[page->n], 0, sizeof(ZarisRecord));
	return &page->records[page->n];
}

/* The names of wanted fields outlive the request in a page, so they are copied: once, and shared by its records. */
static bool
copy_names(Page *page)
{
	const ZarisPageRequest *request = page->request;

	if (request->record != ZARIS_RECORD_HASH || request->n_fields == 0 || (request->want & ZARIS_WANT_VALUE) == 0)
		return true;
	page->names = zaris_batch_alloc(page->operation->batch, sizeof(ZarisBytes) * (size_t) request->n_fields);
	if (page->names == NULL)
		return no_memory(page);
	for (int i = 0; i < request->n_fields; i++)
	{
		if (!zaris_lmdb_copy(page->operation->batch, request->fields[i], &page->names[i]))
			return no_memory(page);
	}
	return true;
}

static bool
add_contents(Page *page, ZarisBytes key, const ZarisLmdbFound *found, ZarisRecord *record)
{
	const ZarisPageRequest *request = page->request;

	if ((request->want & ZARIS_WANT_VALUE) == 0)
		return true;
	if (request->record == ZARIS_RECORD_STRING)
		return zaris_lmdb_contents_string(page->operation, key, found, &record->value, page->answer);
	if (request->n_fields == 0)
		return zaris_lmdb_contents_all(page->t, page->operation, key, found, &record->fields, &record->n_fields,
									   page->answer);

	record->fields = zaris_batch_alloc(page->operation->batch, sizeof(ZarisField) * (size_t) request->n_fields);
	if (record->fields == NULL)
		return no_memory(page);
	record->n_fields = request->n_fields;
	for (int i = 0; i < request->n_fields; i++)
		record->fields[i].name = page->names[i];
	return zaris_lmdb_contents_listed(page->t, page->operation, key, found, record->fields, record->n_fields,
									  page->answer);
}

/* One key of the range: expired records and those of another kind are passed over. False: the answer says why. */
static bool
take(Page *page, ZarisBytes key, const MDB_val *value)
{
	ZarisLmdbFound found = {0};
	ZarisRecord	  *record;

	page->looked++;
	if (!zaris_lmdb_examine(page->t, value, &found))
	{
		zaris_lmdb_answer_damaged(page->operation, key, page->answer);
		return false;
	}
	if (!found.present || found.record.kind != page->request->record)
		return true;

	record = add_record(page);
	if (record == NULL || !zaris_lmdb_copy(page->operation->batch, key, &record->key))
		return no_memory(page);
	record->version = found.record.version;
	record->has_version = true;
	record->expiry_ms = found.record.expiry_ms;
	if (!add_contents(page, key, &found, record))
		return false;
	page->size += key.len;
	if ((page->request->want & ZARIS_WANT_VALUE) != 0)
		page->size += found.bytes.len;
	page->n++;
	return true;
}

/*
 * Go through the range until the page is full; *last is the last key looked at when there is more behind it, else
 * nil.
 */
static int
fill(Page *page, ZarisBytes *last)
{
	MDB_cursor_op step = page->request->backward ? MDB_PREV : MDB_NEXT;
	ZarisBytes	  before = {NULL, 0};
	ZarisBytes	  at;
	MDB_val		  key,
		value;
	int code = page->request->backward ? first_backward(page, &key, &value) : first_forward(page, &key, &value);

	*last = (ZarisBytes){NULL, 0};
	while (code == 0 && user_key(&key, &at) && is_inside(page, at))
	{
		/* Keys stay where they are while nothing is written, so the one before can still be named. */
		if (is_full(page))
		{
			*last = before;
			return 0;
		}
		if (!take(page, at, &value))
			return 0;
		before = at;
		code = mdb_cursor_get(page->t->cursor, &key, &value, step);
	}
	return code == MDB_NOTFOUND ? 0 : code;
}

static bool
finish(Page *page, ZarisBytes last)
{
	ZarisKeyPage *result = zaris_batch_alloc(page->operation->batch, sizeof(*result));

	if (result == NULL)
		return no_memory(page);
	memset(result, 0, sizeof(*result));
	result->n = page->n;
	result->records = page->records;
	if (last.data != NULL && !zaris_lmdb_copy(page->operation->batch, last, &result->cursor))
		return no_memory(page);
	page->operation->page = result;
	return true;
}

int
zaris_lmdb_page(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer)
{
	Page	   page = {.t = t, .operation = operation, .request = operation->scan, .answer = answer};
	ZarisBytes last;
	int		   code;

	zaris_lmdb_answer(answer, ZARIS_OK, NULL);
	page.count = page.request->count > 0 ? page.request->count : DEFAULT_COUNT;
	if (page.count > MOST_COUNT)
		page.count = MOST_COUNT;
	if (!copy_names(&page))
		return 0;
	code = mdb_cursor_open(t->txn, t->environment->records, &t->cursor);
	if (code != 0)
		return code;

	if (!set_bounds(&page))
		no_memory(&page);
	else
		code = fill(&page, &last);
	mdb_cursor_close(t->cursor);
	t->cursor = NULL;
	if (code == 0 && answer->status == ZARIS_OK)
		(void) finish(&page, last);
	return code;
}
