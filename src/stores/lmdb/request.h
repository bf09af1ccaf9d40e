/*
 * request.h
 *	  One operation inside one LMDB transaction: what reads (read.c, page.c) and what writes (write.c) have in common.
 *
 * Every function returns 0 when the operation has its answer, whatever that is, or LMDB's code when the transaction can
 * go no further: then it is aborted, and nothing of it counts.
 */
#ifndef ZARIS_LMDB_REQUEST_H
#define ZARIS_LMDB_REQUEST_H

#include "client/store.h"

#include "stores/lmdb/environment.h"
#include "stores/lmdb/record.h"

/* Before each key: LMDB has no empty key, ours may be empty (I9). It leaves room for other things than records, too. */
#define ZARIS_LMDB_KEY_PREFIX 'k'

#define ZARIS_LMDB_KEY_ROOM 1024 /* more than any LMDB allows */

typedef struct ZarisLmdbTransaction
{
	ZarisLmdbEnvironment *environment;
	MDB_txn				 *txn;
	MDB_cursor			 *cursor; /* of a scan page; kept here so that it can be closed after a failed assertion */
	int64_t				  now_ms; /* wall clock: decides what has expired, the same for all operations */
	ZarisLmdbScratch	 *scratch;

	/* writing */
	bool	has_sequence;
	int64_t sequence; /* the last version given out */
	int		applied;  /* records written or removed */
} ZarisLmdbTransaction;

/* A key as the records database has it. */
typedef struct ZarisLmdbKey
{
	MDB_val value; /* points into bytes */
	char	bytes[ZARIS_LMDB_KEY_ROOM];
} ZarisLmdbKey;

/* What a key holds now. Bytes and body point into the map, and are gone with the next write of the transaction. */
typedef struct ZarisLmdbFound
{
	bool			stored;	 /* something lies there, perhaps expired */
	bool			present; /* and is not expired */
	ZarisBytes		bytes;	 /* as stored */
	ZarisLmdbRecord record;
} ZarisLmdbFound;

/* request.c */

/* An answer with a sentence of ours, which must be static; NULL = none. */
extern void zaris_lmdb_answer(ZarisAnswer *answer, ZarisStatus status, const char *text);

/* An answer that names a key whose record is damaged. */
extern void zaris_lmdb_answer_damaged(const ZarisOperation *operation, ZarisBytes key, ZarisAnswer *answer);

/* False: the key is too long, and the answer says so. */
extern bool zaris_lmdb_key(const ZarisLmdbTransaction *t, ZarisBytes key, ZarisLmdbKey *stored, ZarisAnswer *answer);

/* Take apart what lies at a key. False: it is damaged. */
extern bool zaris_lmdb_examine(const ZarisLmdbTransaction *t, const MDB_val *value, ZarisLmdbFound *found);

/*
 * Look the operation's key up.  That it is not there is told by *found, and is no code.  A damaged record makes the
 * answer's status ProtocolError, else that stays as it is.
 */
extern int zaris_lmdb_find(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisLmdbKey *key,
						   ZarisLmdbFound *found, ZarisAnswer *answer);

/* contents.c: what a reader gets of a record, copied into the batch's memory. False: the answer says why. */
extern bool zaris_lmdb_copy(struct ZarisBatch *batch, ZarisBytes bytes, ZarisBytes *copy);
extern bool zaris_lmdb_contents_string(const ZarisOperation *operation, ZarisBytes key, const ZarisLmdbFound *found,
									   ZarisBytes *value, ZarisAnswer *answer);
extern bool zaris_lmdb_contents_all(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisBytes key,
									const ZarisLmdbFound *found, ZarisField **fields, int *n_fields,
									ZarisAnswer *answer);

/* fields: names in, values out */
extern bool zaris_lmdb_contents_listed(const ZarisLmdbTransaction *t, const ZarisOperation *operation, ZarisBytes key,
									   const ZarisLmdbFound *found, ZarisField *fields, int n_fields,
									   ZarisAnswer *answer);

/* read.c, page.c */
extern int zaris_lmdb_get(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer);
extern int zaris_lmdb_page(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer);

/* write.c: Put and Delete */
extern int zaris_lmdb_write(ZarisLmdbTransaction *t, ZarisOperation *operation, ZarisAnswer *answer);

/* After the writes of a transaction: remove some of what has expired, note the last version. */
extern int zaris_lmdb_write_end(ZarisLmdbTransaction *t);

/* Bytes that a write puts into a transaction, about. */
extern size_t zaris_lmdb_write_size(const ZarisOperation *operation);

#endif /* ZARIS_LMDB_REQUEST_H */
