/*
 * written.h
 *	  The keys that the running statement has written or is writing.
 *
 * A store shows a statement its own writes at once, which PostgreSQL's rules do not know.  This book restores them:
 *
 *	 1. Two writes of one key must not be in flight together: after a redirect the later might arrive first.
 *	 2. A row is updated or deleted once: of several join rows the first wins, the others are skipped, as PostgreSQL
 *		skips a row "already updated by self".  Without this the second would be a Conflict with our own first.
 *	 3. A record that the statement creates (INSERT, UPDATE of a key) is none of the rows that it reads: a scan skips
 *		it, or UPDATE t SET key = key || 'x' might never end.
 *
 * One book a statement and server, shared by all its tables, found by the executor's state and gone with it.  Keys are
 * kept as 128-bit fingerprints under a seed of the backend's own.  A statement that only inserts and reads nothing from the
 * server forgets a key once it is written, so that a load can be larger than memory.
 */
#ifndef ZARIS_FDW_WRITTEN_H
#define ZARIS_FDW_WRITTEN_H

#include "postgres.h"

#include "client/operation.h"
#include "nodes/execnodes.h"

typedef struct ZarisWritten ZarisWritten;

typedef struct ZarisFingerprint
{
	uint64 low;
	uint64 high;
} ZarisFingerprint;

/* The statement's book, made when there is none. estate NULL: one of its own, in the current context. */
extern ZarisWritten *zaris_written_open(EState *estate, Oid serverid);

/* Keep keys after they are written, from now on: for whoever updates, deletes or reads besides. */
extern void zaris_written_remember(ZarisWritten *written);

extern ZarisFingerprint zaris_written_fingerprint(ZarisBytes key);

/* Who writes the key at this moment, as given to _begin; NULL = nobody. */
extern void *zaris_written_writer(const ZarisWritten *written, ZarisFingerprint key);

/* Whether the statement has begun to write the key (and the book remembers). */
extern bool zaris_written_has(const ZarisWritten *written, ZarisFingerprint key);

extern void zaris_written_begin(ZarisWritten *written, ZarisFingerprint key, void *writer, bool creates);
extern void zaris_written_end(ZarisWritten *written, ZarisFingerprint key);

/* For scans: whether the statement that runs in estate has created this key. Cheap when nothing is being written. */
extern bool zaris_written_created(EState *estate, Oid serverid, ZarisBytes key);

#endif /* ZARIS_FDW_WRITTEN_H */
