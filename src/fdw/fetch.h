/*
 * fetch.h
 *	  What a read must fetch of each record, and how a record becomes a row.
 */
#ifndef ZARIS_FDW_FETCH_H
#define ZARIS_FDW_FETCH_H

#include "fdw/table.h"

#include "client/store.h"
#include "executor/tuptable.h"

typedef struct ZarisFetch
{
	const ZarisTable   *table;
	int					want;	/* ZARIS_WANT_* */
	bool				header; /* rows are tuples whose header carries the version (modify.h) */
	bool				value;	/* which of the table's columns are filled in */
	bool				version;
	bool				expires_at;
	int					n_fields;
	const ZarisColumn **fields;
	ZarisBytes		   *field_names; /* theirs, in the same order */
} ZarisFetch;

/* columns: IntList of attribute numbers that must be filled in. palloc'd in the current context. */
extern ZarisFetch *zaris_fetch_create(const ZarisTable *table, List *columns, bool header);

/*
 * Store a record in an empty slot; key columns come from the key, other columns that were not asked for are NULL.  What
 * the row points to is palloc'd in the current context.  False: the key is none of the table's (I12), and the slot is
 * still empty.  Raises for a value that its column cannot hold.
 */
extern bool zaris_fetch_store(const ZarisFetch *fetch, const ZarisRecord *record, TupleTableSlot *slot);

/* "keys only", "value, version", "fields a, b": for EXPLAIN; palloc'd. */
extern char *zaris_fetch_description(const ZarisFetch *fetch);

#endif /* ZARIS_FDW_FETCH_H */
