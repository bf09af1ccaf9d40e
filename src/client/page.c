/*
 * page.c
 *	  A page of a scan: which of its keys count, the values of those, rows one by one.
 *
 *	 ASKED -> WAITING -> FETCHING -> READY -> USED_UP
 *	             ^                     |
 *	             +---- next slice -----+
 *
 * Values are fetched in slices, so that a list of many keys does not make as many operations at once.  When few rows
 * are wanted (row_hint) only one page of the scan fetches at a time, since the others may never be looked at.
 */
#include "client/scan_inside.h"

#include <stdlib.h>
#include <string.h>

static ScanPage *
make_page(ZarisScan *scan)
{
	ScanPage *page = calloc(1, sizeof(*page));

	if (page == NULL)
		return NULL;
	page->batch = zaris_batch_create(scan->client);
	page->fetch = zaris_batch_create(scan->client);
	if (page->batch == NULL || page->fetch == NULL)
	{
		zaris_page_free(page, false);
		return NULL;
	}
	return page;
}

ScanPage *
zaris_page_begin(ZarisScan *scan)
{
	ScanPage *page = scan->spare;

	if (page != NULL)
		scan->spare = page->newer;
	else
		page = make_page(scan);
	if (page != NULL)
		page->ask = zaris_batch_operation(page->batch);
	if (page == NULL || page->ask == NULL)
	{
		if (page != NULL)
			zaris_page_free(page, false);
		zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
		return NULL;
	}
	page->newer = NULL;
	page->state = SCAN_PAGE_ASKED;
	page->rows = NULL;
	page->gets = NULL;
	page->n_rows = page->next_row = page->ready_start = page->ready_end = 0;
	zaris_page_set_deadline(page, scan->deadline_us);
	return page;
}

static bool
fetches_values(const ZarisScan *scan)
{
	return !scan->has_records && scan->request.want != 0;
}

static bool
has_prefix(const ZarisScan *scan, const ZarisBytes *key)
{
	const ZarisBytes *prefix = &scan->request.prefix;

	return prefix->len == 0 || (key->len >= prefix->len && memcmp(key->data, prefix->data, prefix->len) == 0);
}

/* Whether a key counts, and is seen for the first time. */
static ZarisSeen
judge_key(ZarisScan *scan, const ZarisBytes *key, const ZarisSlotSet *counted)
{
	ZarisSeen seen;

	if (scan->partitioned)
	{
		int slot = zaris_client_slot(scan->client, key->data, key->len);

		if (slot < 0 || slot >= scan->n_slots || !zaris_slotset_has(counted, slot))
		{
			scan->stats.foreign_slots++;
			return ZARIS_SEEN_BEFORE;
		}
	}

	/* A node that lists a slot knows of no prefix. */
	if (!has_prefix(scan, key))
		return ZARIS_SEEN_BEFORE;
	if (scan->ordered)
		return ZARIS_SEEN_NEW;
	seen = zaris_fingerprints_add(&scan->seen, key->data, key->len);
	if (seen == ZARIS_SEEN_BEFORE)
		scan->stats.duplicates++;
	return seen;
}

bool
zaris_page_take_keys(ScanPage *page, ZarisScan *scan, const ZarisSlotSet *counted)
{
	ZarisKeyPage *keys = page->ask->page;

	scan->stats.pages++;
	scan->stats.keys += (uint64_t) keys->n;
	page->rows = zaris_batch_alloc(page->batch, sizeof(page->rows[0]) * (size_t) keys->n);
	if (page->rows == NULL)
	{
		zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
		return false;
	}
	for (int i = 0; i < keys->n; i++)
	{
		ZarisSeen seen = judge_key(scan, &keys->records[i].key, counted);

		if (seen == ZARIS_SEEN_NO_MEMORY)
		{
			zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
			return false;
		}
		if (seen == ZARIS_SEEN_NEW)
			page->rows[page->n_rows++] = &keys->records[i];
	}
	scan->new_keys += (uint64_t) page->n_rows;

	if (page->n_rows == 0)
		page->state = SCAN_PAGE_USED_UP;
	else if (fetches_values(scan))
		page->state = SCAN_PAGE_WAITING;
	else
	{
		page->ready_end = page->n_rows;
		page->state = SCAN_PAGE_READY;
	}
	return true;
}

/* values */

static ZarisOperation *
submit_get(ScanPage *page, const ZarisScanRequest *request, const ZarisRecord *row)
{
	ZarisOperation *get = zaris_batch_operation(page->fetch);

	if (get == NULL)
		return NULL;
	get->kind = ZARIS_OP_GET;
	get->record = request->record;
	get->key = row->key;
	get->want = request->want;
	if (request->n_fields > 0)
	{
		get->fields = zaris_batch_alloc(page->fetch, sizeof(get->fields[0]) * (size_t) request->n_fields);
		if (get->fields == NULL)
			return NULL;
		get->n_fields = request->n_fields;
		for (int i = 0; i < request->n_fields; i++)
		{
			get->fields[i].name = request->fields[i];
			get->fields[i].value.data = NULL;
			get->fields[i].value.len = 0;
		}
	}
	zaris_batch_submit(page->fetch, get);
	return get;
}

static int
slice_size(const ZarisScan *scan)
{
	int64_t hint = scan->request.row_hint;
	int		most = scan->request.page_size * 2; /* a page may be a little larger than asked for */

	if (hint <= 0 || hint > most)
		return most;
	return hint < SCAN_SMALLEST_PAGE ? SCAN_SMALLEST_PAGE : (int) hint;
}

static void
fetch_slice(ScanPage *page, ZarisScan *scan)
{
	int n = page->n_rows - page->next_row;

	if (n > slice_size(scan))
		n = slice_size(scan);
	zaris_batch_reset(page->fetch);
	page->ready_start = page->next_row;
	page->ready_end = page->next_row + n;
	page->state = SCAN_PAGE_FETCHING;
	scan->open_slices++;
	page->gets = zaris_batch_alloc(page->fetch, sizeof(page->gets[0]) * (size_t) n);
	if (page->gets == NULL)
	{
		zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
		return;
	}
	for (int i = 0; i < n; i++)
	{
		page->gets[i] = submit_get(page, &scan->request, page->rows[page->ready_start + i]);
		if (page->gets[i] == NULL)
		{
			zaris_scan_fail(scan, ZARIS_NO_MEMORY, NULL, "");
			return;
		}
	}
}

void
zaris_page_advance(ScanPage *page, ZarisScan *scan)
{
	if (page->state == SCAN_PAGE_WAITING && (scan->request.row_hint <= 0 || scan->open_slices == 0))
		fetch_slice(page, scan);
	if (page->state == SCAN_PAGE_FETCHING && zaris_batch_is_done(page->fetch))
		page->state = SCAN_PAGE_READY;
}

/* rows */

/* A Get's outcome as a row. False: there is none (any more), or the scan has failed. */
static bool
record_of_get(ZarisScan *scan, const ZarisOperation *get, ZarisRecord *record)
{
	if (get->status == ZARIS_NOT_FOUND || get->status == ZARIS_WRONG_TYPE)
	{
		scan->stats.vanished++;
		return false;
	}
	if (get->status != ZARIS_OK)
	{
		zaris_scan_fail(scan, get->status, get, get->error_text);
		return false;
	}
	record->key = get->key;
	record->value = get->result;
	record->fields = get->n_fields > 0 ? get->fields : get->all_fields;
	record->n_fields = get->n_fields > 0 ? get->n_fields : get->n_all_fields;
	record->version = get->version;
	record->has_version = get->has_version;
	record->expiry_ms = get->expiry_ms;
	return true;
}

bool
zaris_page_next_row(ScanPage *page, ZarisScan *scan, ZarisRecord *record)
{
	if (page->state != SCAN_PAGE_READY)
		return false;
	while (page->next_row < page->ready_end && scan->state != SCAN_FAILED)
	{
		int i = page->next_row++;

		if (page->gets == NULL)
		{
			*record = *page->rows[i];
			return true;
		}
		if (record_of_get(scan, page->gets[i - page->ready_start], record))
			return true;
	}

	if (page->gets != NULL)
		scan->open_slices--;
	page->gets = NULL;
	page->state = page->next_row < page->n_rows ? SCAN_PAGE_WAITING : SCAN_PAGE_USED_UP;
	return false;
}

/* life */

void
zaris_page_recycle(ScanPage *page, ZarisScan *scan)
{
	zaris_batch_reset(page->batch);
	zaris_batch_reset(page->fetch);
	page->newer = scan->spare;
	scan->spare = page;
}

void
zaris_page_set_deadline(ScanPage *page, uint64_t deadline_us)
{
	zaris_batch_set_deadline(page->batch, deadline_us);
	zaris_batch_set_deadline(page->fetch, deadline_us);
}

void
zaris_page_free(ScanPage *page, bool broken)
{
	if (broken)
	{
		zaris_batch_abandon(page->batch);
		zaris_batch_abandon(page->fetch);
	}
	else
	{
		zaris_batch_free(page->batch);
		zaris_batch_free(page->fetch);
	}
	free(page);
}
