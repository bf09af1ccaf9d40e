/*
 * joingroup.h
 *	  A group of outer rows of the batched join, and the Gets of their keys.
 *
 *		zaris_join_group_init(group, ...);								-- once
 *		zaris_join_group_begin(group);
 *		... zaris_join_group_add(group, outer, lookup); ...				-- asks for keys that are new to the group
 *		zaris_wait_batch(group->guard);									-- before the first operation is looked at
 *		zaris_join_group_drop(group);									-- at the end, also early
 *
 * Everything a group holds lies in its own context until the next begin: outer rows, keys, and in the guard's batch the
 * records.
 */
#ifndef ZARIS_FDW_JOINGROUP_H
#define ZARIS_FDW_JOINGROUP_H

#include "postgres.h"

#include "backend/session.h"
#include "fdw/fetch.h"
#include "fdw/lookup.h"
#include "utils/hsearch.h"

typedef struct ZarisJoinRow
{
	MinimalTuple tuple;
	int			 first; /* of its keys, in the group's operations */
	int			 n_keys;
} ZarisJoinRow;

typedef struct ZarisJoinGroup
{
	const ZarisFetch *fetch;
	ZarisSession	 *session;
	MemoryContext	  home;	 /* where the guard hangs */
	ZarisGuard		 *guard; /* NULL = none yet, or given up while in flight */
	MemoryContext	  context;
	int				  n_rows;
	ZarisJoinRow	 *rows;
	int				  n_operations;
	int				  n_allocated;
	ZarisOperation	**operations; /* of all rows, one after the other; rows that name the same key share one */
	HTAB			 *distinct;
	int				  n_distinct;
	Size			  bytes; /* held, without the records */
} ZarisJoinGroup;

/* Nothing is sent yet. home outlives the group. */
extern void zaris_join_group_init(ZarisJoinGroup *group, const ZarisFetch *fetch, int most_rows, MemoryContext home);

/* Everything that was asked for must be done, or dropped. */
extern void zaris_join_group_begin(ZarisJoinGroup *group, ZarisSession *session);

/* Keep an outer row and ask for its keys, which the lookup has evaluated. Does not wait. */
extern void zaris_join_group_add(ZarisJoinGroup *group, TupleTableSlot *outer, ZarisLookup *lookup, StringInfo scratch);

/* Give up what is in flight and forget the rows. */
extern void zaris_join_group_drop(ZarisJoinGroup *group);

#endif /* ZARIS_FDW_JOINGROUP_H */
