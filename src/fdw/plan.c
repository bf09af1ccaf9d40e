/*
 * plan.c
 *	  Planning of reads: which keys a query names, what that costs, what must be fetched.
 *
 * The cost model knows two things.  A round trip costs as much as a handful of random pages, however many keys travel
 * in it.  And a scan walks the keys of the whole store, not only those of the table, so that it is right only
 * where a large part of the table is wanted: no guess at a parameter's value may make a walk look cheaper than Gets.
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "access/table.h"
#include "backend/compat.h"
#include "fdw/plan.h"
#include "fdw/quals.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/typcache.h"

/* A table that was never analyzed. */
#define DEFAULT_TUPLES 100000.0

/* Fewer keys than this a store is never thought to have, however small the table was when it was analyzed. */
#define LEAST_WALK 10000.0

/* In the planner's unit, a sequentially read page. */
#define ROUND_TRIP_COST 10.0
#define WALK_COST		0.2 /* the store looks at one key */
#define RECORD_COST		0.1 /* one record is asked for and comes */

/* baserel->fdw_private: what the three callbacks share. */
typedef struct RelationInfo
{
	ZarisTable	  *table;
	ZarisKeyQuals *quals;  /* of the relation's own clauses */
	double		   tuples; /* of the table, about */
} RelationInfo;

/* Something that a path may use: clauses, and how many key columns they bind. */
typedef struct PathChoice
{
	ZarisKeyQuals *quals;
	int			   n_used; /* all key columns, or ZARIS_USE_TUPLES: Get */
	double		   rows;
} PathChoice;

/* sizes */

static double
clamp_keys(double n)
{
	return Max(1.0, n);
}

/* The share of rows that the clauses which are not implied leave. */
static double
local_selectivity(PlannerInfo *root, RelOptInfo *rel, List *clauses, const ZarisKeyQuals *quals)
{
	List	 *local = NIL;
	ListCell *cell;

	foreach (cell, clauses)
	{
		if (!zaris_quals_imply(quals, quals->table->n_key_columns, lfirst(cell)))
			local = lappend(local, lfirst(cell));
	}
	return clauselist_selectivity(root, local, rel->relid, JOIN_INNER, NULL);
}

/*
 * Let the planner's estimates know that a key is unique, by the description of an index that does not exist.  Without it
 * an equality is thought to leave every 200th row, and a join with a table of 100,000 keys to multiply the other side by 500.
 * Not "immediate", so that nothing is concluded from it but a number of rows.
 */
static void
tell_uniqueness(RelOptInfo *rel, const ZarisTable *table)
{
	const ZarisColumn *column = table->key_columns[0];
	IndexOptInfo	  *index;

	if (table->n_key_columns != 1)
		return;
	index = makeNode(IndexOptInfo);
	index->rel = rel;
	index->ncolumns = index->nkeycolumns = 1;
	index->indexkeys = palloc(sizeof(int));
	index->indexkeys[0] = column->attnum;
	index->indexcollations = palloc(sizeof(Oid));
	index->indexcollations[0] = column->collation;
	index->opfamily = palloc(sizeof(Oid));
	index->opfamily[0] = lookup_type_cache(column->base_type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	index->opcintype = palloc(sizeof(Oid));
	index->opcintype[0] = column->base_type;
	index->tuples = rel->tuples;
	index->unique = true;
	index->immediate = false;
	index->hypothetical = true;
	rel->indexlist = list_make1(index);
}

void
zaris_get_foreign_rel_size(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	Relation	  relation = table_open(foreigntableid, NoLock);
	RelationInfo *info = palloc0(sizeof(*info));

	info->table = zaris_table_open(relation);
	table_close(relation, NoLock);
	info->quals = zaris_quals_match(root, baserel, info->table, baserel->baserestrictinfo);
	info->tuples = baserel->tuples >= 0 ? baserel->tuples : DEFAULT_TUPLES;
	baserel->fdw_private = info;
	baserel->tuples = info->tuples;
	tell_uniqueness(baserel, info->table);
	set_baserel_size_estimates(root, baserel);

	/* several columns are unique together only, which the planner's arithmetic does not know */
	if (zaris_quals_are_complete(info->quals))
		baserel->rows = clamp_row_est(zaris_quals_n_keys(info->quals) *
									  local_selectivity(root, baserel, baserel->baserestrictinfo, info->quals));
	else if (info->quals->tuples != NULL)
		baserel->rows = clamp_row_est(Min(baserel->rows, info->quals->tuples->n));
}

ZarisTable *
zaris_plan_table(const RelOptInfo *baserel)
{
	const RelationInfo *info = baserel->fdw_private;

	return info->table;
}

/* costs */

/* How many rows the scan of a path's prefix sees: as clauses that bind leading columns say. */
static double
scanned_rows(PlannerInfo *root, RelOptInfo *rel, const RelationInfo *info, const PathChoice *choice)
{
	List *narrowing = NIL;

	for (int i = 0; i < choice->n_used; i++)
		narrowing = lappend(narrowing, choice->quals->bound[i]->clause);
	if (choice->quals->pattern != NULL && choice->n_used == choice->quals->n_bound)
		narrowing = lappend(narrowing, choice->quals->pattern->clause);
	return clamp_keys(info->tuples * clauselist_selectivity(root, narrowing, rel->relid, JOIN_INNER, NULL));
}

/* Rounds of at most so many at once. */
static double
n_rounds(double n, int at_once)
{
	return ceil(clamp_keys(n) / Max(1, at_once));
}

Cost
zaris_plan_get_cost(double n_round_trips, double n_keys)
{
	return n_round_trips * ROUND_TRIP_COST + n_keys * RECORD_COST;
}

static bool
is_get(const ZarisTable *table, int n_used)
{
	return n_used == table->n_key_columns || n_used == ZARIS_USE_TUPLES;
}

static void
cost_choice(PlannerInfo *root, RelOptInfo *rel, const RelationInfo *info, const PathChoice *choice,
			Cost *startup, Cost *total)
{
	const ZarisTable *table = info->table;
	double			  n_keys;
	Cost			  per_row = cpu_tuple_cost + rel->baserestrictcost.per_tuple;

	*startup = rel->baserestrictcost.startup + ROUND_TRIP_COST;
	if (is_get(table, choice->n_used))
	{
		n_keys = clamp_keys(choice->n_used == ZARIS_USE_TUPLES ? choice->quals->tuples->n : zaris_quals_n_keys(choice->quals));
		*startup += Min(n_keys, table->batch_size) * RECORD_COST;
		*total = *startup + (n_rounds(n_keys, table->batch_size) - 1) * ROUND_TRIP_COST + n_keys * RECORD_COST;
	}
	else
	{
		double walked = Max(info->tuples, LEAST_WALK);

		n_keys = scanned_rows(root, rel, info, choice);
		*total = *startup + n_rounds(walked, table->fetch_size) * ROUND_TRIP_COST + walked * WALK_COST +
				 n_keys * RECORD_COST;
	}
	*startup += rel->reltarget->cost.startup;
	*total += rel->reltarget->cost.startup + n_keys * per_row + choice->rows * rel->reltarget->cost.per_tuple;
}

/* paths */

static void
add_choice(PlannerInfo *root, RelOptInfo *rel, const RelationInfo *info, const PathChoice *choice,
		   Relids required_outer)
{
	Cost startup;
	Cost total;

	cost_choice(root, rel, info, choice, &startup, &total);
	add_path(rel, (Path *) create_foreignscan_path(root, rel, NULL, choice->rows, 0, startup, total, NIL, required_outer,
												   NULL, NIL, list_make1_int(choice->n_used)));
}

/*
 * Ways to read with what the clauses bind: keys if they are whole, else the narrowest scan.  Many keys may be more than
 * a scan would see, so that the scan is offered beside them.
 */
static void
add_choices(PlannerInfo *root, RelOptInfo *rel, const RelationInfo *info, ZarisKeyQuals *quals, double rows,
			Relids required_outer)
{
	PathChoice choice = {quals, quals->n_bound, rows};

	add_choice(root, rel, info, &choice, required_outer);
	if (!zaris_quals_are_complete(quals) && quals->tuples != NULL)
	{
		choice.n_used = ZARIS_USE_TUPLES;
		add_choice(root, rel, info, &choice, required_outer);
		return;
	}
	if (!zaris_quals_are_complete(quals) || zaris_quals_n_keys(quals) <= info->table->batch_size)
		return;
	choice.n_used = 0;
	add_choice(root, rel, info, &choice, required_outer);
}

/* Which member of an equivalence class is worth a join clause: see generate_implied_equalities_for_column. */
static bool
is_member_key(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *class, EquivalenceMember *member, void *argument)
{
	const ZarisColumn *column = argument;
	Node			  *node = (Node *) member->em_expr;

	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node != NULL && IsA(node, Var) && ((Var *) node)->varno == rel->relid &&
		   ((Var *) node)->varattno == column->attnum;
}

/* All join clauses that could bind a key column if their other relations came first. */
static List *
find_join_clauses(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table)
{
	List	 *found = NIL;
	ListCell *cell;

	foreach (cell, rel->joininfo)
	{
		RestrictInfo *clause = lfirst(cell);

		if (join_clause_is_movable_to(clause, rel) && zaris_quals_bind(root, rel, table, clause) != NULL)
			found = lappend(found, clause);
	}
	if (!rel->has_eclass_joins)
		return found;
	for (int i = 0; i < table->n_key_columns; i++)
	{
		List *clauses = generate_implied_equalities_for_column(root, rel, is_member_key, table->key_columns[i],
															   rel->lateral_referencers);

		foreach (cell, clauses)
		{
			RestrictInfo *clause = lfirst(cell);

			if (join_clause_is_movable_to(clause, rel) && zaris_quals_bind(root, rel, table, clause) != NULL)
				found = lappend(found, clause);
		}
	}
	return found;
}

static List *
add_outer(List *outers, Relids outer)
{
	ListCell *cell;

	foreach (cell, outers)
	{
		if (bms_equal(lfirst(cell), outer))
			return outers;
	}
	return lappend(outers, outer);
}

/* The sets of relations that a nested loop could have on its outer side: each clause's own, and all of them together. */
static List *
find_outers(RelOptInfo *rel, List *clauses)
{
	List	 *outers = NIL;
	Relids	  all = NULL;
	ListCell *cell;

	foreach (cell, clauses)
	{
		RestrictInfo *clause = lfirst(cell);
		Relids		  outer = bms_union(clause->clause_relids, rel->lateral_relids);

		outer = bms_del_member(outer, rel->relid);
		if (bms_is_empty(outer))
			continue;
		outers = add_outer(outers, outer);
		all = bms_add_members(all, outer);
	}
	if (list_length(outers) > 1)
		outers = add_outer(outers, all);
	return outers;
}

/* Paths for which other relations give values of key columns. */
static void
add_parameterized(PlannerInfo *root, RelOptInfo *rel, const RelationInfo *info)
{
	List	 *outers = find_outers(rel, find_join_clauses(root, rel, info->table));
	ListCell *cell;

	foreach (cell, outers)
	{
		ParamPathInfo *outer = get_baserel_parampathinfo(root, rel, lfirst(cell));
		List		  *clauses;
		ZarisKeyQuals *quals;

		if (outer == NULL)
			continue;
		clauses = list_concat_copy(rel->baserestrictinfo, outer->ppi_clauses);
		quals = zaris_quals_match(root, rel, info->table, clauses);
		if (quals->n_bound <= info->quals->n_bound && (quals->pattern == NULL || info->quals->pattern != NULL))
			continue; /* nothing gained */
		if (zaris_quals_are_complete(quals))
			outer->ppi_rows = clamp_row_est(zaris_quals_n_keys(quals) * local_selectivity(root, rel, clauses, quals));
		add_choices(root, rel, info, quals, outer->ppi_rows, outer->ppi_req_outer);
	}
}

void
zaris_get_foreign_paths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	RelationInfo *info = baserel->fdw_private;

	add_choices(root, baserel, info, info->quals, baserel->rows, baserel->lateral_relids);
	add_parameterized(root, baserel, info);
}

/* plans */

/*
 * About how many rows will be taken, for a query that just cuts off this relation's rows; 0 = not known, or all.  A filter
 * or a sort above would make it a wrong guess.
 */
static int
row_hint(PlannerInfo *root, RelOptInfo *rel, List *local)
{
	if (root->limit_tuples < 1 || root->limit_tuples > PG_INT16_MAX || local != NIL)
		return 0;
	if (rel->reloptkind != RELOPT_BASEREL || bms_membership(root->all_baserels) != BMS_SINGLETON)
		return 0;
	if (root->parse->sortClause != NIL || root->parse->commandType != CMD_SELECT)
		return 0;
	return (int) root->limit_tuples;
}

/* Everything above the scan, and its own filters, may look at these columns; by attnum - FirstLowInvalid... */
static Bitmapset *
needed_attributes(RelOptInfo *rel, List *local, List *recheck)
{
	Bitmapset *needed = NULL;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &needed);
	pull_varattnos((Node *) local, rel->relid, &needed);
	pull_varattnos((Node *) recheck, rel->relid, &needed);
	return needed;
}

static bool
needs(const Bitmapset *needed, int attnum)
{
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, needed);
}

static List *
columns_of(const Bitmapset *needed, const ZarisTable *table)
{
	bool  whole_row = needs(needed, InvalidAttrNumber);
	List *columns = NIL;

	for (int i = 0; i < table->n_columns; i++)
	{
		if (table->columns[i].role != ZARIS_COLUMN_NONE && (whole_row || needs(needed, i + 1)))
			columns = lappend_int(columns, i + 1);
	}
	return columns;
}

/* Sort the clauses: what the keys imply is only for rechecks, the rest is filtered locally, with a reason each. */
static void
divide_clauses(PlannerInfo *root, RelOptInfo *rel, const ZarisKeyQuals *quals, int n_used, List *clauses,
			   List **local, List **recheck, List **reasons)
{
	ListCell *cell;

	*local = *recheck = *reasons = NIL;
	foreach (cell, clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);

		if (clause->pseudoconstant)
			continue;
		if (zaris_quals_imply(quals, n_used, clause))
		{
			*recheck = lappend(*recheck, clause->clause);
			continue;
		}
		*local = lappend(*local, clause->clause);
		*reasons = lappend(*reasons, makeString(zaris_quals_reason(root, rel, quals, n_used, clause)));
	}
}

ForeignScan *
zaris_get_foreign_plan(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid, ForeignPath *best_path, List *tlist,
					   List *scan_clauses, Plan *outer_plan)
{
	RelationInfo	  *info = baserel->fdw_private;
	int				   n_used = linitial_int(best_path->fdw_private);
	ZarisKeyQuals	  *quals = zaris_quals_match(root, baserel, info->table, scan_clauses);
	bool			   get = is_get(info->table, n_used);
	ZarisScanOperation operation = ZARIS_SCAN_SCAN;
	ZarisPatternKind   pattern = ZARIS_PATTERN_NONE;
	Bitmapset		  *needed;
	List			  *local;
	List			  *recheck;
	List			  *reasons;
	List			  *expressions;
	List			  *is_array;
	bool			   header;
	List *private;

	if (n_used > quals->n_bound || (n_used == ZARIS_USE_TUPLES && quals->tuples == NULL))
		elog(ERROR, "clauses of the path are not those of the plan");
	if (get)
		operation = n_used == ZARIS_USE_TUPLES ? ZARIS_SCAN_GET_TUPLES : ZARIS_SCAN_GET;
	divide_clauses(root, baserel, quals, n_used, scan_clauses, &local, &recheck, &reasons);
	expressions = zaris_quals_expressions(quals, n_used, &is_array);
	if (!get && quals->pattern != NULL && n_used == quals->n_bound)
	{
		pattern = quals->pattern->pattern;
		expressions = lappend(expressions, linitial(quals->pattern->values));
	}
	needed = needed_attributes(baserel, local, recheck);
	header = needs(needed, MinTransactionIdAttributeNumber) || needs(needed, MaxTransactionIdAttributeNumber);

	/* in the order of ZarisScanPrivate */
	private = list_make5(makeInteger(operation), is_array, makeInteger(pattern),
						 columns_of(needed, info->table), makeBoolean(header));
	private = lappend(private, makeInteger(row_hint(root, baserel, local)));
	private = lappend(private, reasons);
	Assert(list_length(private) == ZARIS_PRIVATE_LENGTH);
	return make_foreignscan(tlist, local, baserel->relid, expressions, private, NIL, recheck, outer_plan);
}
