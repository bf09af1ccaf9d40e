/*
 * write.c
 *	  Put and Delete, and what a transaction of writes does at its end (request.h).
 *
 * Versions: one counter for the whole environment, kept in the meta database and raised by every Put.  So a version is
 * never given out twice, not even for a key that was deleted and made again, and IfMatchVersion cannot mistake one
 * record for another.
 *
 * Expiry: what has expired is not there for anybody; it is removed later, a little with each transaction that
 * writes.  The expiries database has it in order of time, so that nothing must be searched:
 *
 *		{ expiry, version } -> key			both big-endian; the version makes an entry unique
 *
 * An entry is good if its key's record has this version; else it is a leftover, and is just dropped.
 */
#include "stores/lmdb/request.h"

#include <string.h>

#define EXPIRY_KEY	   16
#define WRITE_OVERHEAD (ZARIS_LMDB_HEADER + 256) /* header, node, and its share of the pages above */
#define MOST_SWEPT	   64						 /* expired records removed by one transaction */

static const MDB_val state_key = {5, "state"};

/* What is left when a write is allowed: what the new record keeps of the old one. */
typedef struct Change
{
	ZarisLmdbKey	key;
	ZarisLmdbFound	found;
	ZarisLmdbRecord record; /* Put: to be written */
} Change;

/* versions */

static int
next_version(ZarisLmdbTransaction *t, int64_t *version)
{
	MDB_val key = state_key;
	MDB_val value;
	int		code;

	if (!t->has_sequence)
	{
		code = mdb_get(t->txn, t->environment->meta, &key, &value);
		if (code != 0)
			return code == MDB_NOTFOUND ? MDB_CORRUPTED : code;
		if (value.mv_size < 8)
			return MDB_CORRUPTED;
		t->sequence = (int64_t) zaris_lmdb_load64(value.mv_data);
		if (t->sequence < 0 || t->sequence == INT64_MAX)
			return MDB_CORRUPTED;
		t->has_sequence = true;
	}
	*version = ++t->sequence;
	return 0;
}

static int
save_sequence(ZarisLmdbTransaction *t)
{
	char	state[8];
	MDB_val key = state_key;
	MDB_val value = {sizeof(state), state};

	if (!t->has_sequence)
		return 0;
	zaris_lmdb_store64(state, (uint64_t) t->sequence);
	return mdb_put(t->txn, t->environment->meta, &key, &value, 0);
}

/* expiry */

static void
expiry_key(int64_t expiry_ms, int64_t version, char bytes[EXPIRY_KEY], MDB_val *key)
{
	/* Big-endian, since LMDB orders bytewise; neither is ever negative here. */
	for (int i = 0; i < 8; i++)
	{
		bytes[i] = (char) ((uint64_t) expiry_ms >> (56 - 8 * i));
		bytes[8 + i] = (char) ((uint64_t) version >> (56 - 8 * i));
	}
	*key = (MDB_val){EXPIRY_KEY, bytes};
}

static int64_t
load_big_endian(const char *at)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | (unsigned char) at[i];
	return (int64_t) number;
}

/* The old record's entry goes with it. That there is none is no error: what matters is that none is left. */
static int
forget_expiry(ZarisLmdbTransaction *t, int64_t expiry_ms, int64_t version)
{
	char	bytes[EXPIRY_KEY];
	MDB_val key;
	int		code;

	if (expiry_ms == ZARIS_NO_EXPIRY)
		return 0;
	expiry_key(expiry_ms, version, bytes, &key);
	code = mdb_del(t->txn, t->environment->expiries, &key, NULL);
	return code == MDB_NOTFOUND ? 0 : code;
}

static int
note_expiry(ZarisLmdbTransaction *t, const ZarisLmdbRecord *record, const ZarisLmdbKey *of)
{
	char	bytes[EXPIRY_KEY];
	MDB_val key;
	MDB_val value = of->value;

	if (record->expiry_ms == ZARIS_NO_EXPIRY)
		return 0;
	expiry_key(record->expiry_ms, record->version, bytes, &key);
	return mdb_put(t->txn, t->environment->expiries, &key, &value, 0);
}

/* Remove the record that an entry speaks of, if it is still that one. */
static int
sweep_record(ZarisLmdbTransaction *t, MDB_val key, int64_t expiry_ms, int64_t version)
{
	ZarisLmdbFound found;
	MDB_val		   value;
	int			   code = mdb_get(t->txn, t->environment->records, &key, &value);

	if (code != 0)
		return code == MDB_NOTFOUND ? 0 : code;
	if (!zaris_lmdb_examine(t, &value, &found))
		return 0;
	if (found.record.version != version || found.record.expiry_ms != expiry_ms)
		return 0;
	return mdb_del(t->txn, t->environment->records, &key, NULL);
}

/* The entry that expired first, if one did: its record is removed, then it. MDB_NOTFOUND: nothing has expired. */
static int
sweep_one(ZarisLmdbTransaction *t)
{
	char	key[ZARIS_LMDB_KEY_ROOM];
	char	bytes[EXPIRY_KEY];
	MDB_val entry,
		value;
	int code = mdb_cursor_get(t->cursor, &entry, &value, MDB_FIRST);

	if (code != 0)
		return code;
	if (entry.mv_size != EXPIRY_KEY || value.mv_size < 1 || value.mv_size > t->environment->max_key ||
		value.mv_size > sizeof(key))
		return MDB_CORRUPTED;
	if (load_big_endian(entry.mv_data) > t->now_ms)
		return MDB_NOTFOUND;

	/* Copied first: nothing that LMDB points to outlives a deletion. */
	memcpy(bytes, entry.mv_data, EXPIRY_KEY);
	memcpy(key, value.mv_data, value.mv_size);
	code = sweep_record(t, (MDB_val){value.mv_size, key}, load_big_endian(bytes), load_big_endian(bytes + 8));
	if (code != 0)
		return code;
	return mdb_cursor_del(t->cursor, 0);
}

static int
sweep(ZarisLmdbTransaction *t)
{
	int code = mdb_cursor_open(t->txn, t->environment->expiries, &t->cursor);

	if (code != 0)
		return code;
	for (int i = 0; i < MOST_SWEPT && code == 0; i++)
		code = sweep_one(t);
	mdb_cursor_close(t->cursor);
	t->cursor = NULL;
	return code == MDB_NOTFOUND ? 0 : code;
}

/* preconditions */

/* May the write go on?  False: the answer says why not (I7). */
static bool
is_allowed(const ZarisOperation *operation, const ZarisLmdbFound *found, ZarisAnswer *answer)
{
	/* A record of another kind is none of the caller's table, whatever the precondition says of it. */
	if (found->present && found->record.kind != operation->record)
	{
		zaris_lmdb_answer(answer, ZARIS_WRONG_TYPE, NULL);
		return false;
	}
	switch (operation->precondition)
	{
		case ZARIS_IF_ABSENT:
			if (!found->present)
				return true;
			zaris_lmdb_answer(answer, ZARIS_CONFLICT, NULL);
			return false;
		case ZARIS_IF_PRESENT:
			if (found->present)
				return true;
			zaris_lmdb_answer(answer, ZARIS_NOT_FOUND, NULL);
			return false;
		case ZARIS_IF_MATCH_VERSION:
			if (found->present && found->record.version == operation->match_version)
				return true;
			zaris_lmdb_answer(answer, ZARIS_CONFLICT, NULL);
			return false;
	}
	zaris_lmdb_answer(answer, ZARIS_INVALID_REQUEST, "the precondition is not known");
	return false;
}

/* writing */

static int64_t
new_expiry(const ZarisOperation *operation, const ZarisLmdbFound *found)
{
	switch (operation->expiry)
	{
		case ZARIS_EXPIRY_KEEP:
			return found->present ? found->record.expiry_ms : ZARIS_NO_EXPIRY;
		case ZARIS_EXPIRY_CLEAR:
			return ZARIS_NO_EXPIRY;
		case ZARIS_EXPIRY_SET:
			/* A time before 1970 has passed, as 1970 has; and -1 means none. */
			return operation->expires_at_ms < 0 ? 0 : operation->expires_at_ms;
	}
	return ZARIS_NO_EXPIRY;
}

/*
 * A string's body is the caller's value; a hash's is made of the old fields and the changes. False: the answer says
 * why.
 */
static bool
new_body(ZarisLmdbTransaction *t, const ZarisOperation *operation, const ZarisLmdbFound *found, ZarisBytes *body,
		 ZarisAnswer *answer)
{
	ZarisBytes			old = {NULL, 0};
	ZarisLmdbHashResult result = ZARIS_LMDB_HASH_OK;

	if (operation->record == ZARIS_RECORD_STRING)
	{
		*body = operation->value;
		if (body->len > ZARIS_LMDB_MAX_RECORD - ZARIS_LMDB_HEADER)
			result = ZARIS_LMDB_HASH_TOO_LARGE;
	}
	else
	{
		if (found->present)
			old = found->record.body;
		if (found->present && !zaris_lmdb_record_verify(found->bytes))
			result = ZARIS_LMDB_HASH_DAMAGED;
		else
			result = zaris_lmdb_hash_merge(old, operation->fields, operation->n_fields, t->scratch, body);
	}

	switch (result)
	{
		case ZARIS_LMDB_HASH_OK:
			return true;
		case ZARIS_LMDB_HASH_EMPTY:
			/* As on any store, so that a table means the same everywhere: a hash is its fields. */
			zaris_lmdb_answer(answer, ZARIS_INVALID_REQUEST, "a hash without fields cannot exist");
			break;
		case ZARIS_LMDB_HASH_TOO_LARGE:
			zaris_lmdb_answer(answer, ZARIS_TOO_LARGE, "a record of an embedded store cannot be larger than 2 GB");
			break;
		case ZARIS_LMDB_HASH_NO_MEMORY:
			zaris_lmdb_answer(answer, ZARIS_NO_MEMORY, NULL);
			break;
		case ZARIS_LMDB_HASH_DAMAGED:
			zaris_lmdb_answer_damaged(operation, operation->key, answer);
			break;
	}
	return false;
}

/*
 * The record itself: LMDB makes the room, and header and body are written right there, so that a large value is
 * copied once.
 */
static int
store_record(ZarisLmdbTransaction *t, Change *change)
{
	const ZarisLmdbRecord *record = &change->record;
	MDB_val				   key = change->key.value;
	MDB_val				   value = {ZARIS_LMDB_HEADER + record->body.len, NULL};
	int					   code = mdb_put(t->txn, t->environment->records, &key, &value, MDB_RESERVE);

	if (code != 0)
		return code;
	zaris_lmdb_record_header(record, value.mv_data);
	if (record->body.len > 0)
		memcpy((char *) value.mv_data + ZARIS_LMDB_HEADER, record->body.data, record->body.len);
	return 0;
}

static int
put_record(ZarisLmdbTransaction *t, ZarisOperation *operation, Change *change, ZarisAnswer *answer)
{
	ZarisLmdbFound *found = &change->found;
	int				code;

	if (!new_body(t, operation, found, &change->record.body, answer))
		return 0;
	change->record.kind = operation->record;
	change->record.expiry_ms = new_expiry(operation, found);
	code = next_version(t, &change->record.version);

	/* found->bytes is gone from here on; its numbers were copied. */
	if (code == 0 && found->stored)
		code = forget_expiry(t, found->record.expiry_ms, found->record.version);
	if (code == 0)
		code = note_expiry(t, &change->record, &change->key);
	if (code == 0)
		code = store_record(t, change);
	if (code != 0)
		return code;

	t->applied++;
	operation->version = change->record.version;
	operation->has_version = true;
	return 0;
}

static int
delete_record(ZarisLmdbTransaction *t, Change *change)
{
	MDB_val key = change->key.value;
	int		code = forget_expiry(t, change->found.record.expiry_ms, change->found.record.version);

	if (code == 0)
		code = mdb_del(t->txn, t->environment->records, &key, NULL);
	if (code == 0)
		t->applied++;
	return code;
}

int
zaris_lmdb_write(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer)
{
	Change change;
	int	   code;

	/* A transaction that is done once more must not show what the first time left. */
	operation->has_version = false;
	memset(&change.record, 0, sizeof(change.record));
	zaris_lmdb_answer(answer, ZARIS_OK, NULL);
	if (operation->kind == ZARIS_OP_DELETE && operation->precondition == ZARIS_IF_ABSENT)
	{
		zaris_lmdb_answer(answer, ZARIS_INVALID_REQUEST, "what is absent cannot be deleted");
		return 0;
	}
	if (!zaris_lmdb_key(t, operation->key, &change.key, answer))
		return 0;
	code = zaris_lmdb_find(t, operation, &change.key, &change.found, answer);
	if (code != 0 || answer->status != ZARIS_OK)
		return code;
	if (!is_allowed(operation, &change.found, answer))
		return 0;
	return operation->kind == ZARIS_OP_DELETE ? delete_record(t, &change) : put_record(t, operation, &change, answer);
}

int
zaris_lmdb_write_end(ZarisLmdbTransaction *t)
{
	int code = save_sequence(t);

	return code == 0 ? sweep(t) : code;
}

/* A sum that runs over would make one huge group of what should be split. */
static size_t
add(size_t a, size_t b)
{
	return a > SIZE_MAX / 4 || b > SIZE_MAX / 4 ? SIZE_MAX / 4 : a + b;
}

size_t
zaris_lmdb_write_size(const ZarisOperation *operation)
{
	size_t size = add(WRITE_OVERHEAD, operation->key.len);

	if (operation->kind != ZARIS_OP_PUT)
		return size;
	size = add(size, operation->value.len);
	for (int i = 0; i < operation->n_fields; i++)
		size = add(size, add(operation->fields[i].name.len, operation->fields[i].value.len));
	return size;
}
