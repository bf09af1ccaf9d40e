/*
 * request.c
 *	  Keys, look-ups and answers of one operation (request.h).
 */
#include "stores/lmdb/request.h"

#include <stdio.h>
#include <string.h>

#include "client/client.h"

#define KEY_SHOWN 32 /* bytes of a key in a message */

void
zaris_lmdb_answer(ZarisAnswer *answer, ZarisStatus status, const char *text)
{
	/* Whatever is answered here comes from the store itself: it looked, and decided. */
	memset(answer, 0, sizeof(*answer));
	answer->status = status;
	switch (zaris_status_class(status))
	{
		case ZARIS_CLASS_DONE:
		case ZARIS_CLASS_ANSWER:
			answer->outcome = ZARIS_OUTCOME_APPLIED;
			break;
		default:
			answer->outcome = ZARIS_OUTCOME_REJECTED;
			break;
	}
	answer->text = text;
	answer->text_len = text == NULL ? 0 : strlen(text);
}

void
zaris_lmdb_answer_damaged(const ZarisOperation *operation, ZarisBytes key, ZarisAnswer *answer)
{
	char  *text = zaris_batch_alloc(operation->batch, ZARIS_ERROR_TEXT);
	char   shown[KEY_SHOWN * 4 + 1];
	size_t used = 0;

	for (size_t i = 0; i < key.len && i < KEY_SHOWN; i++)
	{
		unsigned char byte = (unsigned char) key.data[i];

		if (byte >= ' ' && byte < 0x7f && byte != '\\' && byte != '"')
			shown[used++] = (char) byte;
		else
			used += (size_t) snprintf(shown + used, sizeof(shown) - used, "\\x%02x", byte);
	}
	shown[used] = '\0';

	if (text != NULL)
		snprintf(text, ZARIS_ERROR_TEXT, "the record of key \"%s\"%s is damaged", shown,
				 key.len > KEY_SHOWN ? "..." : "");
	zaris_lmdb_answer(answer, ZARIS_PROTOCOL_ERROR, text != NULL ? text : "a record is damaged");
}

bool
zaris_lmdb_key(const ZarisLmdbTransaction *t, ZarisBytes key, ZarisLmdbKey *stored, ZarisAnswer *answer)
{
	size_t most = t->environment->max_key;

	if (most > sizeof(stored->bytes))
		most = sizeof(stored->bytes);
	if (key.len >= most)
	{
		zaris_lmdb_answer(answer, ZARIS_TOO_LARGE, "a key of an embedded store cannot be longer than 510 bytes");
		return false;
	}
	stored->bytes[0] = ZARIS_LMDB_KEY_PREFIX;
	if (key.len > 0)
		memcpy(stored->bytes + 1, key.data, key.len);
	stored->value.mv_data = stored->bytes;
	stored->value.mv_size = key.len + 1;
	return true;
}

bool
zaris_lmdb_examine(const ZarisLmdbTransaction *t, const MDB_val *value, ZarisLmdbFound *found)
{
	found->stored = true;
	found->bytes.data = value->mv_data;
	found->bytes.len = value->mv_size;
	if (!zaris_lmdb_record_read(found->bytes, &found->record))
		return false;
	found->present = !zaris_lmdb_record_is_expired(&found->record, t->now_ms);
	return true;
}

int
zaris_lmdb_find(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisLmdbKey *key,
				ZarisLmdbFound *found, ZarisAnswer *answer)
{
	MDB_val value;
	int		code = mdb_get(t->txn, t->environment->records, &key->value, &value);

	memset(found, 0, sizeof(*found));
	if (code == MDB_NOTFOUND)
		return 0;
	if (code == 0 && !zaris_lmdb_examine(t, &value, found))
		zaris_lmdb_answer_damaged(operation, operation->key, answer);
	return code;
}
