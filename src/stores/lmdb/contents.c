/*
 * contents.c
 *	  Copies what a reader wants of a record out of the map, which is LMDB's, into the batch's memory (request.h).
 *
 * This is where checksums are looked at: what only asks whether a record is there, or for its version, does not
 * read its body.
 */
#include "stores/lmdb/request.h"

#include <string.h>

#include "client/client.h"

bool
zaris_lmdb_copy(struct ZarisBatch *batch, ZarisBytes bytes, ZarisBytes *copy)
{
	char *room = zaris_batch_alloc(batch, bytes.len > 0 ? bytes.len : 1);

	/* Empty is not nil (I9): even then there is a pointer. */
	if (room == NULL)
		return false;
	if (bytes.len > 0)
		memcpy(room, bytes.data, bytes.len);
	copy->data = room;
	copy->len = bytes.len;
	return true;
}

static bool
no_memory(ZarisAnswer *answer)
{
	zaris_lmdb_answer(answer, ZARIS_NO_MEMORY, NULL);
	return false;
}

bool
zaris_lmdb_contents_string(const ZarisOperation *operation, ZarisBytes key, const ZarisLmdbFound *found,
						   ZarisBytes *value, ZarisAnswer *answer)
{
	if (!zaris_lmdb_record_verify(found->bytes))
	{
		zaris_lmdb_answer_damaged(operation, key, answer);
		return false;
	}
	return zaris_lmdb_copy(operation->batch, found->record.body, value) ? true : no_memory(answer);
}

/* The fields of a hash as they lie in the map. */
static bool
read_fields(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisBytes key, const ZarisLmdbFound *found,
			ZarisField **fields, int *n_fields, ZarisAnswer *answer)
{
	ZarisLmdbHashResult result = ZARIS_LMDB_HASH_DAMAGED;

	if (zaris_lmdb_record_verify(found->bytes))
		result = zaris_lmdb_hash_read(found->record.body, t->scratch, fields, n_fields);
	if (result == ZARIS_LMDB_HASH_OK)
		return true;
	if (result == ZARIS_LMDB_HASH_NO_MEMORY)
		return no_memory(answer);
	zaris_lmdb_answer_damaged(operation, key, answer);
	return false;
}

bool
zaris_lmdb_contents_all(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisBytes key,
						const ZarisLmdbFound *found, ZarisField **fields, int *n_fields, ZarisAnswer *answer)
{
	ZarisField *stored;
	ZarisField *copies;
	ZarisBytes	body;
	int			n;

	if (!read_fields(t, operation, key, found, &stored, &n, answer))
		return false;

	/* The body is copied whole, and names and values point into the copy as they did into the original. */
	copies = zaris_batch_alloc(operation->batch, sizeof(ZarisField) * (size_t) (n > 0 ? n : 1));
	if (copies == NULL || !zaris_lmdb_copy(operation->batch, found->record.body, &body))
		return no_memory(answer);
	for (int i = 0; i < n; i++)
	{
		copies[i].name.data = body.data + (stored[i].name.data - found->record.body.data);
		copies[i].name.len = stored[i].name.len;
		copies[i].value.data = body.data + (stored[i].value.data - found->record.body.data);
		copies[i].value.len = stored[i].value.len;
	}
	*fields = copies;
	*n_fields = n;
	return true;
}

bool
zaris_lmdb_contents_listed(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisBytes key,
						   const ZarisLmdbFound *found, ZarisField *fields, int n_fields, ZarisAnswer *answer)
{
	ZarisField *stored;
	size_t		size = 0;
	char	   *room;
	int			n;

	if (!read_fields(t, operation, key, found, &stored, &n, answer))
		return false;

	for (int i = 0; i < n_fields; i++)
	{
		fields[i].value = zaris_lmdb_hash_find(stored, n, fields[i].name);
		size += fields[i].value.len;
	}
	room = zaris_batch_alloc(operation->batch, size > 0 ? size : 1);
	if (room == NULL)
	{
		for (int i = 0; i < n_fields; i++)
			fields[i].value = (ZarisBytes){NULL, 0};
		return no_memory(answer);
	}
	for (int i = 0; i < n_fields; i++)
	{
		if (fields[i].value.data == NULL)
			continue;
		if (fields[i].value.len > 0)
			memcpy(room, fields[i].value.data, fields[i].value.len);
		fields[i].value.data = room;
		room += fields[i].value.len;
	}
	return true;
}
