/*
 * join.c
 *	  The batched lookup join, the planner's side: when it is offered, what it costs, the plan.
 *
 * PostgreSQL asks the hook for each pair of relations in both orders.  The library is loaded by the time a query with
 * one of our tables is planned, and from then on the hook is asked for every join of the session: the first test must
 * be cheap.
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "backend/compat.h"
#include "backend/settings.h"
#include "fdw/join.h"
#include "fdw/plan.h"
#include "fdw/quals.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"

/* What the hook found out; the path carries it to the plan. */
typedef struct JoinOffer
{
	PlannerInfo	  *root;
	RelOptInfo	  *joinrel;
	RelOptInfo	  *outer;
	RelOptInfo	  *inner;
	JoinType	   type;
	List		  *output;	/* what the join must give to those above it */
	List		  *clauses; /* RestrictInfos of the join */
	ZarisTable	  *table;
	ZarisKeyQuals *quals;
} JoinOffer;

static set_join_pathlist_hook_type previous_hook = NULL;

static Plan *plan_join(PlannerInfo *root, RelOptInfo *joinrel, CustomPath *path, List *tlist, List *clauses,
					   List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = ZARIS_JOIN_NODE,
	.PlanCustomPath = plan_join,
};

static const CustomScanMethods scan_methods = {
	.CustomName = ZARIS_JOIN_NODE,
	.CreateCustomScanState = zaris_joinscan_create,
};

/* when it is offered */

/* A table that the planner has proved to be empty was never planned by us, and has no fdw_private. */
static bool
is_ours(const RelOptInfo *rel)
{
	return rel->fdwroutine != NULL && rel->fdwroutine->GetForeignPlan == zaris_get_foreign_plan &&
		   rel->reloptkind == RELOPT_BASEREL && rel->fdw_private != NULL;
}

/* The inner table never gives rows of its own accord, so RIGHT and FULL joins are not for us. */
static bool
is_supported_type(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI;
}

/* A row that EvalPlanQual looks at again is not one of ours; lateral references would need a group of one. */
static bool
is_supported_query(PlannerInfo *root, const RelOptInfo *outer, const RelOptInfo *inner)
{
	return root->rowMarks == NIL && root->placeholder_list == NIL && root->qual_security_level == 0 &&
		   bms_is_empty(outer->lateral_relids) && bms_is_empty(inner->lateral_relids) &&
		   outer->reloptkind != RELOPT_OTHER_MEMBER_REL && outer->reloptkind != RELOPT_OTHER_JOINREL;
}

/* Pseudoconstants are checked by a gate that PostgreSQL builds for its own joins only. */
static bool
has_pseudoconstant(List *clauses)
{
	ListCell *cell;

	foreach (cell, clauses)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

/* Whether something needs the inner table's whole row or a system column: the scan tuple has columns only. */
static bool
needs_more_than_columns(const JoinOffer *offer)
{
	Bitmapset *attributes = NULL;

	pull_varattnos((Node *) offer->output, offer->inner->relid, &attributes);
	pull_varattnos((Node *) extract_actual_clauses(offer->clauses, false), offer->inner->relid, &attributes);
	pull_varattnos((Node *) extract_actual_clauses(offer->inner->baserestrictinfo, false), offer->inner->relid,
				   &attributes);
	return !bms_is_empty(attributes) &&
		   bms_next_member(attributes, -1) <= InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber;
}

/* The clauses that may say keys: of an outer join only those that decide whether two rows match. */
static List *
matching_clauses(const JoinOffer *offer)
{
	List	 *matching = list_copy(offer->inner->baserestrictinfo);
	ListCell *cell;

	foreach (cell, offer->clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);

		if (!IS_OUTER_JOIN(offer->type) || !RINFO_IS_PUSHED_DOWN(clause, offer->joinrel->relids))
			matching = lappend(matching, clause);
	}
	return matching;
}

/* All key columns are bound, and the outer side has a say in it. */
static bool
find_keys(JoinOffer *offer)
{
	bool uses_outer = false;

	offer->quals = zaris_quals_match(offer->root, offer->inner, offer->table, matching_clauses(offer));
	if (!zaris_quals_are_complete(offer->quals))
		return false;
	for (int i = 0; i < offer->quals->n_bound; i++)
	{
		Relids used = pull_varnos(offer->root, (Node *) offer->quals->bound[i]->values);

		uses_outer = uses_outer || bms_overlap(used, offer->outer->relids);
	}
	return uses_outer;
}

/* costs */

/* Groups grow from ZARIS_JOIN_FIRST_GROUP by ZARIS_JOIN_GROWTH to batch_size; each is a round trip. */
static double
n_groups(double rows, int batch_size)
{
	double size = Min(ZARIS_JOIN_FIRST_GROUP, batch_size);
	double groups = 1;

	while (rows > size && size < batch_size)
	{
		rows -= size;
		size = Min(size * ZARIS_JOIN_GROWTH, batch_size);
		groups++;
	}
	if (rows > size)
		groups += ceil((rows - size) / batch_size);
	return groups;
}

static void
cost_join(const JoinOffer *offer, const Path *outer, Path *path)
{
	double		n_keys = outer->rows * zaris_quals_n_keys(offer->quals);
	QualCost	quals;
	PathTarget *target = offer->joinrel->reltarget;

	cost_qual_eval(&quals, offer->clauses, offer->root);
	quals.startup += offer->inner->baserestrictcost.startup;
	quals.per_tuple += offer->inner->baserestrictcost.per_tuple + cpu_tuple_cost;
	path->startup_cost = outer->startup_cost + quals.startup + target->cost.startup + zaris_plan_get_cost(1, 1);
	path->total_cost = outer->total_cost + quals.startup + target->cost.startup +
					   zaris_plan_get_cost(n_groups(outer->rows, offer->table->batch_size), n_keys) +
					   n_keys * quals.per_tuple + outer->rows * cpu_tuple_cost + path->rows * target->cost.per_tuple;
}

/* PostgreSQL does not know that a key has one row at most. */
static double
estimate_rows(const JoinOffer *offer, const Path *outer)
{
	double most = clamp_row_est(outer->rows * zaris_quals_n_keys(offer->quals));

	if (offer->type == JOIN_LEFT)
		most = Max(most, outer->rows);
	return Min(offer->joinrel->rows, most);
}

static void
add_join(JoinOffer *offer, Path *outer)
{
	CustomPath *join = makeNode(CustomPath);

	join->path.pathtype = T_CustomScan;
	join->path.parent = offer->joinrel;
	join->path.pathtarget = offer->joinrel->reltarget;
	join->path.rows = estimate_rows(offer, outer);
	join->path.pathkeys = build_join_pathkeys(offer->root, offer->joinrel, offer->type, outer->pathkeys);
	join->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	join->custom_paths = list_make1(outer);
	join->custom_private = list_make1(offer);
	join->methods = &path_methods;
#if PG_VERSION_NUM >= 170000
	join->custom_restrictinfo = offer->clauses;
#endif
#if PG_VERSION_NUM >= 180000
	join->path.disabled_nodes = outer->disabled_nodes;
#endif
	cost_join(offer, outer, &join->path);
	add_path(offer->joinrel, &join->path);
}

static void
offer_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
		   JoinPathExtraData *extra)
{
	JoinOffer *offer;
	ListCell  *cell;

	if (previous_hook != NULL)
		previous_hook(root, joinrel, outer, inner, type, extra);

	if (!is_ours(inner) || !zaris_setting_batched_join)
		return;
	if (!is_supported_type(type) || !is_supported_query(root, outer, inner) ||
		has_pseudoconstant(extra->restrictlist) || has_pseudoconstant(inner->baserestrictinfo))
		return;
	offer = palloc0(sizeof(*offer));
	offer->root = root;
	offer->joinrel = joinrel;
	offer->outer = outer;
	offer->inner = inner;
	offer->type = type;
	offer->output = joinrel->reltarget->exprs;
	offer->clauses = extra->restrictlist;
	offer->table = zaris_plan_table(inner);
	if (needs_more_than_columns(offer) || !find_keys(offer))
		return;
	foreach (cell, outer->pathlist)
	{
		if (PATH_REQ_OUTER((Path *) lfirst(cell)) == NULL)
			add_join(offer, lfirst(cell));
	}
}

/* the plan */

static bool
is_same_column(const Var *a, const Var *b)
{
	return a->varno == b->varno && a->varattno == b->varattno && a->varlevelsup == b->varlevelsup;
}

static Var *
find_column(List *columns, const Var *var)
{
	ListCell *cell;

	foreach (cell, columns)
	{
		if (is_same_column(lfirst(cell), var))
			return lfirst(cell);
	}
	return NULL;
}

/* Every column that the expressions name, once. */
static List *
add_columns(List *columns, List *expressions)
{
	ListCell *cell;

	foreach (cell, pull_var_clause((Node *) expressions, PVC_RECURSE_PLACEHOLDERS))
	{
		Var *var = lfirst_node(Var, cell);

		if (find_column(columns, var) == NULL)
			columns = lappend(columns, var);
	}
	return columns;
}

/*
 * 16 distinguishes a column before an outer join from the same column behind it, which may be NULL.  In our scan tuple
 * they are one column, so all expressions are made to name it alike.
 */
static Node *
unify_columns(Node *node, void *context)
{
	List *columns = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var *column = find_column(columns, (Var *) node);

		return (Node *) copyObject(column != NULL ? column : (Var *) node);
	}
	return expression_tree_mutator(node, unify_columns, context);
}

static List *
unified(List *expressions, List *columns)
{
	return (List *) unify_columns((Node *) expressions, columns);
}

static int
find_in_outer(const Plan *outer, const Var *var)
{
	ListCell *cell;

	foreach (cell, outer->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (IsA(entry->expr, Var) && is_same_column((Var *) entry->expr, var))
			return entry->resno;
	}
	elog(ERROR, "column %d/%d is not in the target list of the outer plan", var->varno, var->varattno);
	return 0;
}

/* Where each column of the scan tuple comes from: see ZARIS_JOIN_SOURCES. */
static List *
find_sources(const JoinOffer *offer, List *columns, const Plan *outer)
{
	List	 *sources = NIL;
	ListCell *cell;

	foreach (cell, columns)
	{
		Var *var = lfirst(cell);

		sources = lappend_int(sources, var->varno == offer->inner->relid ? -var->varattno : find_in_outer(outer, var));
	}
	return sources;
}

static List *
make_scan_tlist(List *columns)
{
	List	 *tlist = NIL;
	ListCell *cell;

	foreach (cell, columns)
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(cell)), list_length(tlist) + 1, NULL, false));
	return tlist;
}

/* Divide the join's clauses into those that decide whether two rows match and those that filter what comes out. */
static void
divide_clauses(const JoinOffer *offer, List **matching, List **filtering)
{
	*filtering = NIL;
	if (IS_OUTER_JOIN(offer->type))
		extract_actual_join_clauses(offer->clauses, offer->joinrel->relids, matching, filtering);
	else
		*matching = extract_actual_clauses(offer->clauses, false);
}

/*
 * The clauses argument is what PostgreSQL made of custom_restrictinfo (17); all versions take them from the offer, which
 * knows their kinds.
 */
static Plan *
plan_join(PlannerInfo *root, RelOptInfo *joinrel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	const JoinOffer *offer = linitial(path->custom_private);
	CustomScan		*scan = makeNode(CustomScan);
	List			*inner_quals = extract_actual_clauses(offer->inner->baserestrictinfo, false);
	List			*join_quals;
	List			*filter;
	List			*bindings;
	List			*keys = zaris_quals_expressions(offer->quals, offer->quals->n_bound, &bindings);
	List			*columns;

	divide_clauses(offer, &join_quals, &filter);

	/*
	 * What stands behind the join comes first: its names are those that the plan above knows.  The target list may be
	 * replaced by a projection that is planned later, so all that the join can give must be there.
	 */
	columns = add_columns(NIL, offer->output);
	columns = add_columns(columns, tlist);
	columns = add_columns(columns, filter);
	columns = add_columns(columns, join_quals);
	columns = add_columns(columns, inner_quals);
	columns = add_columns(columns, keys);

	scan->scan.plan.targetlist = unified(tlist, columns);
	scan->scan.plan.qual = unified(filter, columns);
	scan->flags = path->flags;
	scan->custom_plans = custom_plans;
	scan->custom_exprs = list_make3(unified(keys, columns), unified(inner_quals, columns), unified(join_quals, columns));
	scan->custom_private = list_make4(makeInteger(offer->type),
									  list_make2_oid(offer->table->relid, offer->inner->userid),
									  find_sources(offer, columns, linitial(custom_plans)),
									  list_make3(makeInteger(ZARIS_SCAN_GET), bindings, makeInteger(ZARIS_PATTERN_NONE)));
	scan->custom_scan_tlist = make_scan_tlist(columns);
	scan->methods = &scan_methods;
	return &scan->scan.plan;
}

void
zaris_join_install(void)
{
	RegisterCustomScanMethods(&scan_methods);
	previous_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = offer_join;
}
