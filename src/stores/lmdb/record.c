/*
 * record.c
 *	  The record format of the embedded store (record.h has the drawing).
 */
#include "stores/lmdb/record.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define FORM		1
#define KIND_STRING 1
#define KIND_HASH	2

/* offsets in the header */
#define AT_FORM		 0
#define AT_KIND		 1
#define AT_ZERO		 2
#define AT_CHECKSUM	 4
#define AT_LENGTH	 8
#define AT_VERSION	 12
#define AT_EXPIRY	 20
#define AT_OPERATION 28

#define FIELD_HEADER 8 /* two lengths */

#define SCRATCH_KEPT ((size_t) 256 * 1024)

/* numbers: a byte at a time, which compilers turn into one load */

uint32_t
zaris_lmdb_load32(const char *at)
{
	const unsigned char *byte = (const unsigned char *) at;

	return (uint32_t) byte[0] | (uint32_t) byte[1] << 8 | (uint32_t) byte[2] << 16 | (uint32_t) byte[3] << 24;
}

uint64_t
zaris_lmdb_load64(const char *at)
{
	return (uint64_t) zaris_lmdb_load32(at) | (uint64_t) zaris_lmdb_load32(at + 4) << 32;
}

void
zaris_lmdb_store32(char *at, uint32_t number)
{
	for (int i = 0; i < 4; i++)
		at[i] = (char) (number >> (8 * i));
}

void
zaris_lmdb_store64(char *at, uint64_t number)
{
	zaris_lmdb_store32(at, (uint32_t) number);
	zaris_lmdb_store32(at + 4, (uint32_t) (number >> 32));
}

int
zaris_lmdb_compare(ZarisBytes a, ZarisBytes b)
{
	size_t common = a.len < b.len ? a.len : b.len;
	int	   order = common == 0 ? 0 : memcmp(a.data, b.data, common);

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

/* scratch */

/* At least doubled, so that a growing need does not copy itself to death. The old contents are not kept. */
static bool
scratch_grow(void **room, size_t *size, size_t wanted)
{
	size_t larger = *size * 2 > wanted ? *size * 2 : wanted;

	if (*room != NULL && *size >= wanted)
		return true;
	free(*room);
	*room = malloc(larger > 0 ? larger : 1);
	*size = *room == NULL ? 0 : larger;
	return *room != NULL;
}

char *
zaris_lmdb_scratch_bytes(ZarisLmdbScratch *scratch, size_t size)
{
	void *room = scratch->bytes;
	bool  grown = scratch_grow(&room, &scratch->bytes_size, size);

	scratch->bytes = room;
	return grown ? room : NULL;
}

ZarisField *
zaris_lmdb_scratch_fields(ZarisLmdbScratch *scratch, size_t count)
{
	void *room = scratch->fields;
	bool  grown;

	if (count > SIZE_MAX / 4 / sizeof(ZarisField))
		return NULL;
	grown = scratch_grow(&room, &scratch->fields_size, count * sizeof(ZarisField));
	scratch->fields = room;
	return grown ? room : NULL;
}

void
zaris_lmdb_scratch_trim(ZarisLmdbScratch *scratch)
{
	if (scratch->bytes_size + scratch->fields_size > SCRATCH_KEPT)
		zaris_lmdb_scratch_free(scratch);
}

void
zaris_lmdb_scratch_free(ZarisLmdbScratch *scratch)
{
	free(scratch->bytes);
	free(scratch->fields);
	memset(scratch, 0, sizeof(*scratch));
}

/* records */

/* The body is seeded with the header, so that neither can be exchanged for another one's. */
static uint32_t
checksum(const char header[ZARIS_LMDB_HEADER], ZarisBytes body)
{
	char bare[ZARIS_LMDB_HEADER];

	memcpy(bare, header, sizeof(bare));
	zaris_lmdb_store32(bare + AT_CHECKSUM, 0);
	return (uint32_t) XXH3_64bits_withSeed(body.len == 0 ? "" : body.data, body.len, XXH3_64bits(bare, sizeof(bare)));
}

bool
zaris_lmdb_record_read(ZarisBytes stored, ZarisLmdbRecord *record)
{
	if (stored.len < ZARIS_LMDB_HEADER || stored.data[AT_FORM] != FORM ||
		stored.data[AT_ZERO] != 0 || stored.data[AT_ZERO + 1] != 0)
		return false;

	if (stored.data[AT_KIND] == KIND_STRING)
		record->kind = ZARIS_RECORD_STRING;
	else if (stored.data[AT_KIND] == KIND_HASH)
		record->kind = ZARIS_RECORD_HASH;
	else
		return false;

	if (zaris_lmdb_load32(stored.data + AT_LENGTH) != stored.len - ZARIS_LMDB_HEADER)
		return false;

	record->version = (int64_t) zaris_lmdb_load64(stored.data + AT_VERSION);
	record->expiry_ms = (int64_t) zaris_lmdb_load64(stored.data + AT_EXPIRY);
	if (record->version < 1 || record->expiry_ms < ZARIS_NO_EXPIRY)
		return false;

	memcpy(record->operation_id, stored.data + AT_OPERATION, ZARIS_LMDB_OPERATION_ID);
	record->body.data = stored.data + ZARIS_LMDB_HEADER;
	record->body.len = stored.len - ZARIS_LMDB_HEADER;
	return true;
}

bool
zaris_lmdb_record_verify(ZarisBytes stored)
{
	ZarisBytes body = {stored.data + ZARIS_LMDB_HEADER, stored.len - ZARIS_LMDB_HEADER};

	return checksum(stored.data, body) == zaris_lmdb_load32(stored.data + AT_CHECKSUM);
}

void
zaris_lmdb_record_header(const ZarisLmdbRecord *record, char *to)
{
	memset(to, 0, ZARIS_LMDB_HEADER);
	to[AT_FORM] = FORM;
	to[AT_KIND] = record->kind == ZARIS_RECORD_HASH ? KIND_HASH : KIND_STRING;
	zaris_lmdb_store32(to + AT_LENGTH, (uint32_t) record->body.len);
	zaris_lmdb_store64(to + AT_VERSION, (uint64_t) record->version);
	zaris_lmdb_store64(to + AT_EXPIRY, (uint64_t) record->expiry_ms);
	memcpy(to + AT_OPERATION, record->operation_id, ZARIS_LMDB_OPERATION_ID);
	zaris_lmdb_store32(to + AT_CHECKSUM, checksum(to, record->body));
}

bool
zaris_lmdb_record_is_expired(const ZarisLmdbRecord *record, int64_t now_ms)
{
	return record->expiry_ms != ZARIS_NO_EXPIRY && record->expiry_ms <= now_ms;
}

/* hashes */

/* One field at *at; false when what is left of the body cannot hold it. */
static bool
read_field(const char **at, const char *end, ZarisField *field)
{
	size_t left = (size_t) (end - *at);
	size_t name_len,
		value_len;

	if (left < FIELD_HEADER)
		return false;
	name_len = zaris_lmdb_load32(*at);
	value_len = zaris_lmdb_load32(*at + 4);
	left -= FIELD_HEADER;

	/* Subtracted step by step: a sum of two lengths from a file could run over where size_t has 32 bits. */
	if (name_len > left || value_len > left - name_len)
		return false;

	field->name.data = *at + FIELD_HEADER;
	field->name.len = name_len;
	field->value.data = field->name.data + name_len;
	field->value.len = value_len;
	*at = field->value.data + value_len;
	return true;
}

ZarisLmdbHashResult
zaris_lmdb_hash_read(ZarisBytes body, ZarisLmdbScratch *scratch, ZarisField **fields, int *n_fields)
{
	const char *at = body.data + 4;
	const char *end = body.data + body.len;
	uint32_t	count;

	/* The count is bounded by what the body can hold before anything is allocated for it. */
	if (body.len < 4)
		return ZARIS_LMDB_HASH_DAMAGED;
	count = zaris_lmdb_load32(body.data);
	if (count > (body.len - 4) / FIELD_HEADER || count > INT32_MAX)
		return ZARIS_LMDB_HASH_DAMAGED;

	*fields = zaris_lmdb_scratch_fields(scratch, count);
	if (*fields == NULL)
		return ZARIS_LMDB_HASH_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++)
	{
		if (!read_field(&at, end, &(*fields)[i]))
			return ZARIS_LMDB_HASH_DAMAGED;
		if (i > 0 && zaris_lmdb_compare((*fields)[i - 1].name, (*fields)[i].name) >= 0)
			return ZARIS_LMDB_HASH_DAMAGED;
	}
	*n_fields = (int) count;
	return at == end ? ZARIS_LMDB_HASH_OK : ZARIS_LMDB_HASH_DAMAGED;
}

ZarisBytes
zaris_lmdb_hash_find(const ZarisField *fields, int n_fields, ZarisBytes name)
{
	int low = 0;
	int high = n_fields;

	while (low < high)
	{
		int middle = low + (high - low) / 2;
		int order = zaris_lmdb_compare(fields[middle].name, name);

		if (order == 0)
			return fields[middle].value;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return (ZarisBytes){NULL, 0};
}

/* By name; of equal names the later change comes first, since it is the one that counts. */
static int
compare_changes(const void *a, const void *b)
{
	const ZarisField *left = *(const ZarisField *const *) a;
	const ZarisField *right = *(const ZarisField *const *) b;
	int				  order = zaris_lmdb_compare(left->name, right->name);

	return order != 0 ? order : (left < right) - (left > right);
}

/* The changes in order of their names, each name once; *n_sorted of them. NULL = out of memory. */
static const ZarisField **
sort_changes(const ZarisField *changes, int n_changes, int *n_sorted)
{
	const ZarisField **sorted = malloc(sizeof(*sorted) * (size_t) (n_changes > 0 ? n_changes : 1));
	int				   n = 0;

	if (sorted == NULL)
		return NULL;
	for (int i = 0; i < n_changes; i++)
		sorted[i] = &changes[i];
	qsort(sorted, (size_t) n_changes, sizeof(*sorted), compare_changes);
	for (int i = 0; i < n_changes; i++)
	{
		if (n == 0 || zaris_lmdb_compare(sorted[n - 1]->name, sorted[i]->name) != 0)
			sorted[n++] = sorted[i];
	}
	*n_sorted = n;
	return sorted;
}

/* Two sorted lists become one; *merged has room for both. Returns how many fields there are. */
static int
merge_fields(const ZarisField *old, int n_old, const ZarisField **changes, int n_changes, ZarisField *merged)
{
	int at = 0;
	int change = 0;
	int n = 0;

	while (at < n_old || change < n_changes)
	{
		int order;

		if (at >= n_old)
			order = 1;
		else if (change >= n_changes)
			order = -1;
		else
			order = zaris_lmdb_compare(old[at].name, changes[change]->name);

		if (order < 0)
			merged[n++] = old[at++];
		else
		{
			if (changes[change]->value.data != NULL)
				merged[n++] = *changes[change];
			change++;
			if (order == 0)
				at++;
		}
	}
	return n;
}

static ZarisLmdbHashResult
compose_body(const ZarisField *fields, int n_fields, ZarisLmdbScratch *scratch, ZarisBytes *body)
{
	const size_t most = ZARIS_LMDB_MAX_RECORD - ZARIS_LMDB_HEADER;
	size_t		 size = 4;
	char		*at;

	if (n_fields == 0)
		return ZARIS_LMDB_HASH_EMPTY;
	for (int i = 0; i < n_fields; i++)
	{
		if (fields[i].name.len > most || fields[i].value.len > most)
			return ZARIS_LMDB_HASH_TOO_LARGE;
		size += FIELD_HEADER + fields[i].name.len + fields[i].value.len;
		if (size > most)
			return ZARIS_LMDB_HASH_TOO_LARGE;
	}

	at = zaris_lmdb_scratch_bytes(scratch, size);
	if (at == NULL)
		return ZARIS_LMDB_HASH_NO_MEMORY;
	body->data = at;
	body->len = size;
	zaris_lmdb_store32(at, (uint32_t) n_fields);
	at += 4;
	for (int i = 0; i < n_fields; i++)
	{
		zaris_lmdb_store32(at, (uint32_t) fields[i].name.len);
		zaris_lmdb_store32(at + 4, (uint32_t) fields[i].value.len);
		at += FIELD_HEADER;
		if (fields[i].name.len > 0)
			memcpy(at, fields[i].name.data, fields[i].name.len);
		at += fields[i].name.len;
		if (fields[i].value.len > 0)
			memcpy(at, fields[i].value.data, fields[i].value.len);
		at += fields[i].value.len;
	}
	return ZARIS_LMDB_HASH_OK;
}

ZarisLmdbHashResult
zaris_lmdb_hash_merge(ZarisBytes old, const ZarisField *changes, int n_changes, ZarisLmdbScratch *scratch,
					  ZarisBytes *body)
{
	ZarisLmdbHashResult result = ZARIS_LMDB_HASH_OK;
	ZarisField		   *old_fields = NULL;
	ZarisField		   *merged = NULL;
	const ZarisField  **sorted;
	int					n_old = 0;
	int					n_sorted = 0;

	if (old.data != NULL)
		result = zaris_lmdb_hash_read(old, scratch, &old_fields, &n_old);
	if (result != ZARIS_LMDB_HASH_OK)
		return result;

	sorted = sort_changes(changes, n_changes, &n_sorted);
	if (sorted != NULL)
		merged = malloc(sizeof(*merged) * ((size_t) n_old + (size_t) n_sorted + 1));
	if (merged == NULL)
		result = ZARIS_LMDB_HASH_NO_MEMORY;
	else
		result = compose_body(merged, merge_fields(old_fields, n_old, sorted, n_sorted, merged), scratch, body);
	free(merged);
	free(sorted);
	return result;
}
