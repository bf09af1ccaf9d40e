/*
 * explain.h
 *	  What EXPLAIN says of reads and writes.
 *
 * Reads: the operation (Get, Get many, Scan), the pattern of the keys, what binds them, what is fetched; VERBOSE adds why
 * clauses are checked locally, ANALYZE what it took.  Writes: as modify.h describes them.
 */
#ifndef ZARIS_FDW_EXPLAIN_H
#define ZARIS_FDW_EXPLAIN_H

#include "postgres.h"

#include "commands/explain.h"
#include "fdw/scan.h"
#include "fdw/table.h"
#include "foreign/fdwapi.h"

/*
 * The parts of it that the batched join shows too: the keys that a plan names by fdw_private and expressions (plan.h), and
 * what it took.
 */
extern void zaris_explain_keys(const ZarisTable *table, Plan *plan, List *private, List *expressions, ExplainState *es);
extern void zaris_explain_counts(const ZarisScanCounts *counts, ExplainState *es);

extern void zaris_explain_foreign_scan(ForeignScanState *node, ExplainState *es);
extern void zaris_explain_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private,
										 int subplan_index, ExplainState *es);
extern void zaris_explain_direct_modify(ForeignScanState *node, ExplainState *es);

#endif /* ZARIS_FDW_EXPLAIN_H */
