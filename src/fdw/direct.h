/*
 * direct.h
 *	  UPDATE and DELETE that need not read first: PostgreSQL's callbacks for "direct modify".
 *
 * A statement whose WHERE names whole keys, and perhaps the version, and that sets columns to what does not depend
 * on the row, goes out as one conditional write a key:
 *
 *		UPDATE t SET data = $1 WHERE id = $2						Put IfPresent
 *		UPDATE t SET data = $1 WHERE id = $2 AND version = $3		Put IfMatchVersion
 *		DELETE FROM t WHERE id = ANY ($1)							Delete IfPresent
 *
 * It counts the records that were there.  NotFound, WrongType and, with a version, Conflict mean that the WHERE selects
 * no row (I12), so they are no errors here: the statement did not read anything that could have changed since.
 */
#ifndef ZARIS_FDW_DIRECT_H
#define ZARIS_FDW_DIRECT_H

#include "fdw/modify.h"

/* The scan's own fdw_private, which direct modification keeps for it (EXPLAIN shows the keys from it). */
extern List *zaris_direct_scan_private(const ForeignScan *plan);
extern void	 zaris_direct_describe(ForeignScanState *node, ZarisModifyDescription *description);

extern bool			   zaris_plan_direct_modify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);
extern void			   zaris_begin_direct_modify(ForeignScanState *node, int eflags);
extern TupleTableSlot *zaris_iterate_direct_modify(ForeignScanState *node);
extern void			   zaris_end_direct_modify(ForeignScanState *node);

#endif /* ZARIS_FDW_DIRECT_H */
