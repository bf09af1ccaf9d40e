/*
 * join.h
 *	  The batched lookup join: outer rows are read in groups, the keys of a group are fetched in one pipeline.
 *
 *		SELECT ... FROM orders o JOIN kv k ON k.id = o.kv_id
 *
 * A nested loop over a parameterized scan asks for one key an outer row and waits for each.  This node, a CustomScan,
 * stands in its place: it is offered for each join whose inner side is one of our tables and whose clauses say all
 * key columns of that table; costs decide.  It keeps the order of its outer side.
 *
 *		join.c		the planner's side: when it is offered, what it costs, the plan
 *		joinscan.c	the executor's side; joingroup.[ch]: a group of outer rows and the Gets of their keys
 *
 * Not offered, so that a nested loop does the work: for RIGHT and FULL joins; where rows may be read again by
 * EvalPlanQual (UPDATE, DELETE, MERGE, FOR UPDATE); for lateral references, placeholders, whole rows and system columns
 * of our table; under security barriers.
 */
#ifndef ZARIS_FDW_JOIN_H
#define ZARIS_FDW_JOIN_H

#include "postgres.h"

#include "nodes/extensible.h"

/* From _PG_init: registers the node and takes its place in the chain of set_join_pathlist_hook. */
extern void zaris_join_install(void);

#define ZARIS_JOIN_NODE "Zaris Lookup Join"

/* Groups begin small, for a LIMIT above, and grow to the table's batch_size. */
#define ZARIS_JOIN_FIRST_GROUP 10
#define ZARIS_JOIN_GROWTH	   4

/*
 * A CustomScan's custom_private: a list with these positions.  Its scan tuple consists of columns of the outer plan and of
 * the inner table; all expressions are over that tuple.
 */
enum ZarisJoinPrivate
{
	ZARIS_JOIN_TYPE,	 /* Integer: JoinType */
	ZARIS_JOIN_RELATION, /* OidList: the inner table, and as whom it is read (0 = the current user) */
	ZARIS_JOIN_SOURCES,	 /* IntList, for each column of the scan tuple: resno of the outer plan, or minus the
								 * inner table's attribute number */
	ZARIS_JOIN_KEYS,	 /* List: a fdw_private for zaris_lookup_create() */
	ZARIS_JOIN_LENGTH
};

/* custom_exprs: lists of expressions. */
enum ZarisJoinExpressions
{
	ZARIS_JOIN_KEY_VALUES,	/* as zaris_lookup_create() wants them; over outer columns only */
	ZARIS_JOIN_INNER_QUALS, /* the inner table's own clauses */
	ZARIS_JOIN_JOIN_QUALS	/* all clauses that decide whether two rows match */
};

/* joinscan.c: makes the state of a plan; the callbacks hang on it. */
extern Node *zaris_joinscan_create(CustomScan *plan);

#endif /* ZARIS_FDW_JOIN_H */
