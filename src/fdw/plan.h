/*
 * plan.h
 *	  Planning of reads: which keys a query names, what that costs, what must be fetched.
 *
 * PostgreSQL's callbacks; none of them talks to a store.  For each relation the planner gets one path or more:
 *
 *		Get, Get many	the WHERE gives values for all key columns, or whole keys: one Get a key, in pipelines
 *		Scan			all keys with a prefix: the template's literal, leading key columns, a LIKE pattern
 *
 * each also with values that come from an outer relation.  What a path uses is worked out again from the clauses
 * when it becomes a plan, so that a path's own fdw_private is only how many key columns it binds.
 */
#ifndef ZARIS_FDW_PLAN_H
#define ZARIS_FDW_PLAN_H

#include "postgres.h"

#include "fdw/table.h"
#include "foreign/fdwapi.h"

typedef enum ZarisScanOperation
{
	ZARIS_SCAN_GET,		  /* all key columns are bound */
	ZARIS_SCAN_SCAN,	  /* none or leading ones are, and a pattern may follow */
	ZARIS_SCAN_GET_TUPLES /* a list of whole keys: the n-th expressions of all columns belong together */
} ZarisScanOperation;

typedef enum ZarisPatternKind
{
	ZARIS_PATTERN_NONE,
	ZARIS_PATTERN_LIKE,
	ZARIS_PATTERN_STARTS_WITH
} ZarisPatternKind;

/*
 * A ForeignScan's fdw_private: a list with these positions, of node types that copyObject knows.  Its fdw_exprs are
 * the values of the bound key columns in the order of ZARIS_PRIVATE_BINDINGS, then the pattern if there is one.
 */
enum ZarisScanPrivate
{
	ZARIS_PRIVATE_OPERATION, /* Integer: ZarisScanOperation */
	ZARIS_PRIVATE_BINDINGS,	 /* List, an IntList for each bound key column in template order: for each of its
								 * expressions whether it is an array (1) or a single value (0). The column's values are
								 * the union of its expressions' values. */
	ZARIS_PRIVATE_PATTERN,	 /* Integer: ZarisPatternKind, for the first key column that is not bound */
	ZARIS_PRIVATE_COLUMNS,	 /* IntList: attribute numbers that must be filled in, ascending */
	ZARIS_PRIVATE_HEADER,	 /* Boolean: rows are tuples whose header carries the version (modify.h) */
	ZARIS_PRIVATE_ROW_HINT,	 /* Integer: about how many rows will be taken; 0 = all */
	ZARIS_PRIVATE_REASONS,	 /* List of String: why clauses of plan.qual are checked here, for EXPLAIN VERBOSE */
	ZARIS_PRIVATE_LENGTH
};

/* For joins (join.c): the table of a relation of ours, and what Gets cost beside the handling of their rows. */
extern ZarisTable *zaris_plan_table(const RelOptInfo *baserel);
extern Cost		   zaris_plan_get_cost(double n_round_trips, double n_keys);

extern void			zaris_get_foreign_rel_size(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void			zaris_get_foreign_paths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern ForeignScan *zaris_get_foreign_plan(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid,
										   ForeignPath *best_path, List *tlist, List *scan_clauses, Plan *outer_plan);

#endif /* ZARIS_FDW_PLAN_H */
