/*
 * modify.h
 *	  INSERT, UPDATE, DELETE, COPY, tuple routing and TRUNCATE: PostgreSQL's callbacks for writing.
 *
 * write_mode 'immediate': each write goes out as the statement runs, in pipelines, always with its precondition
 * (I7, I8).  Nothing is held back for the commit: what a statement had sent when it failed stays written, and
 * ROLLBACK does not take it back.  All errors are raised before the statement ends.
 *
 * What the parts do:
 *
 *		modify.c		these callbacks: what the planner must add, when rows may be pipelined, what is returned
 *		row.c			a row becomes the request of an operation: key, contents, expiry, and what is refused
 *		writer.c		sends operations in pipelines, waits, judges the answers
 *		written.c		which keys the running statement has written
 *		move.c			an UPDATE of key columns: IfAbsent on the new key, IfMatchVersion on the old one
 *		direct.c		UPDATE and DELETE that need not read first
 *		truncate.c
 *
 * A contract with the scan (scan.c): a whole row that is to be updated or deleted carries its version in the tuple header,
 * the high 32 bits as xmin, the low 32 bits as xmax.  The planner is asked for both, and for the key columns, as
 * resjunk columns.
 */
#ifndef ZARIS_FDW_MODIFY_H
#define ZARIS_FDW_MODIFY_H

#include "postgres.h"

#include "foreign/fdwapi.h"

/* What EXPLAIN shows of a write. */
typedef struct ZarisModifyDescription
{
	const char *operation;	/* "Put IfAbsent" ...; static or palloc'd */
	int			batch_size; /* operations in flight; 1 = each row is waited for */
	bool		has_counts; /* it ran (ANALYZE): what follows is set */
	uint64		writes;		/* operations sent */
	uint64		applied;	/* that changed a record */
	uint64		attempts;	/* with retries and redirects */
	uint64		waits;		/* pipelines waited for: round trips, about */
} ZarisModifyDescription;

/* With analyze, what is still in flight is waited for first, so that time and counts are whole. */
extern void zaris_modify_describe(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, bool analyze,
								  ZarisModifyDescription *description);

extern void				zaris_add_foreign_update_targets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
														 Relation target_relation);
extern List			   *zaris_plan_foreign_modify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);
extern void				zaris_begin_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private,
												   int subplan_index, int eflags);
extern TupleTableSlot  *zaris_exec_foreign_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
												  TupleTableSlot *planSlot);
extern TupleTableSlot **zaris_exec_foreign_batch_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot **slots,
														TupleTableSlot **planSlots, int *numSlots);
extern int				zaris_get_foreign_modify_batch_size(ResultRelInfo *rinfo);
extern TupleTableSlot  *zaris_exec_foreign_update(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
												  TupleTableSlot *planSlot);
extern TupleTableSlot  *zaris_exec_foreign_delete(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
												  TupleTableSlot *planSlot);
extern void				zaris_end_foreign_modify(EState *estate, ResultRelInfo *rinfo);
extern void				zaris_begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo);
extern void				zaris_end_foreign_insert(EState *estate, ResultRelInfo *rinfo);
extern int				zaris_is_foreign_rel_updatable(Relation rel);
extern void				zaris_exec_foreign_truncate(List *rels, DropBehavior behavior, bool restart_seqs);

#endif /* ZARIS_FDW_MODIFY_H */
