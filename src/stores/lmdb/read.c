/*
 * read.c
 *	  Get (request.h).
 */
#include "stores/lmdb/request.h"

#include "client/client.h"

/* The contents of a record of the right kind, as far as they are wanted. */
static bool
get_contents(ZarisLmdbTransaction *t, ZarisOperation *operation, const ZarisLmdbFound *found, ZarisAnswer *answer)
{
	if ((operation->want & ZARIS_WANT_VALUE) == 0)
		return true;
	if (operation->record == ZARIS_RECORD_STRING)
		return zaris_lmdb_contents_string(operation, operation->key, found, &operation->result, answer);
	if (operation->n_fields == 0)
		return zaris_lmdb_contents_all(t, operation, operation->key, found, &operation->all_fields,
									   &operation->n_all_fields, answer);
	return zaris_lmdb_contents_listed(t, operation, operation->key, found, operation->fields, operation->n_fields,
									  answer);
}

int
zaris_lmdb_get(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer)
{
	ZarisLmdbKey   key;
	ZarisLmdbFound found;
	int			   code;

	/* A key that is too long to be written is not there: that is an answer, and no error. */
	zaris_lmdb_answer(answer, ZARIS_OK, NULL);
	if (!zaris_lmdb_key(t, operation->key, &key, answer))
	{
		zaris_lmdb_answer(answer, ZARIS_NOT_FOUND, NULL);
		return 0;
	}
	code = zaris_lmdb_find(t, operation, &key, &found, answer);
	if (code != 0 || answer->status != ZARIS_OK)
		return code;

	if (!found.present)
		zaris_lmdb_answer(answer, ZARIS_NOT_FOUND, NULL);
	else if (found.record.kind != operation->record)
		zaris_lmdb_answer(answer, ZARIS_WRONG_TYPE, NULL);
	else if (get_contents(t, operation, &found, answer))
	{
		operation->version = found.record.version;
		operation->has_version = true;
		operation->expiry_ms = found.record.expiry_ms;
	}
	return 0;
}
