/*
 * gets.h
 *	  Gets of many keys: in pipelines, in the order of the keys.
 *
 *		gets = zaris_gets_create(table, fetch, lookup);				-- once
 *		zaris_gets_start(gets, session, hint);						-- the lookup is evaluated
 *		while (zaris_gets_next(gets, &record)) ...
 *		zaris_gets_stop(gets);										-- also early; then start again
 *		zaris_gets_free(gets);
 *
 * Two batches take turns: while the rows of one are used, the other is on its way.  Each is held in memory as a whole,
 * so that batches begin small, double, and shrink where values are large.  A lone key is one Get.
 */
#ifndef ZARIS_FDW_GETS_H
#define ZARIS_FDW_GETS_H

#include "fdw/fetch.h"
#include "fdw/lookup.h"

#include "backend/session.h"

typedef struct ZarisGets ZarisGets;

/* In the current context, on which requests in flight hang too. */
extern ZarisGets *zaris_gets_create(const ZarisTable *table, const ZarisFetch *fetch, ZarisLookup *lookup);

/* hint: about how many rows will be taken, 0 = all; then nothing is asked for ahead of it. */
extern void zaris_gets_start(ZarisGets *gets, ZarisSession *session, int hint);

/*
 * The next record that is there; *record is valid until the next call.  Keys that are not there or hold another kind
 * are passed over.  Raises for any other outcome.
 */
extern bool zaris_gets_next(ZarisGets *gets, ZarisRecord *record);
extern void zaris_gets_stop(ZarisGets *gets);
extern void zaris_gets_free(ZarisGets *gets);

/* Keys of another kind that were met, since it was created. */
extern uint64 zaris_gets_skipped(const ZarisGets *gets);

/*
 * The parts, for who runs batches of Gets in an order of its own (the batched join).  The key's bytes are the caller's until
 * the operation is done.
 */
extern ZarisOperation *zaris_get_submit(ZarisGuard *guard, const ZarisFetch *fetch, ZarisBytes key);

/* Of the values that a finished Get brought. */
extern size_t zaris_get_bytes(const ZarisOperation *operation);

/* The record of a finished Get. False: there is none, or one of another kind, which is counted. Else raises. */
extern bool zaris_get_record(const ZarisOperation *operation, ZarisSession *session, const ZarisTable *table,
							 ZarisRecord *record, uint64 *skipped);

#endif /* ZARIS_FDW_GETS_H */
