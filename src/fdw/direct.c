/*
 * direct.c
 *	  UPDATE and DELETE that need not read first: see direct.h.
 *
 * What the ForeignScan below the ModifyTable was planned to read says which keys are meant; this file takes it over, with
 * its expressions, and writes instead.  It does so only where no row has to be looked at: all key columns bound, no
 * clause left but the version's, new values that do not depend on the row, nothing returned, no trigger (the planner
 * itself does not ask when there are row triggers, stored generated columns or WITH CHECK OPTION).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "backend/compat.h"
#include "backend/error.h"
#include "catalog/partition.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "executor/instrument.h"
#include "fdw/direct.h"
#include "fdw/lookup.h"
#include "fdw/plan.h"
#include "fdw/row.h"
#include "fdw/writer.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* The plan's fdw_private. Its fdw_exprs are the scan's, then the new values, then the version's if there is one. */
enum DirectPrivate
{
	DIRECT_PRIVATE_SCAN,		/* List: ZarisScanPrivate, with all key columns bound */
	DIRECT_PRIVATE_COLUMNS,		/* IntList: attribute numbers that are set */
	DIRECT_PRIVATE_HAS_VERSION, /* Boolean */
	DIRECT_PRIVATE_SET_TAG,		/* Boolean: the rows count for the command's tag */
	DIRECT_PRIVATE_LENGTH
};

typedef struct DirectState
{
	CmdType				operation;
	bool				set_tag;
	ZarisWriter		   *writer;
	ZarisLookup		   *lookup;
	int					n_set;
	const ZarisColumn **set;	 /* the columns that are set */
	ExprState		  **values;	 /* their new values */
	ExprState		   *version; /* or NULL */
	MemoryContext		context; /* what the values point to, for all keys */

	/* evaluated */
	ZarisPrecondition  precondition;
	int64			   match_version;
	ZarisBytes		   value;
	ZarisField		  *fields;
	int				   n_fields;
	ZarisExpiryAction  expiry;
	int64			   expires_at_ms;
	const ZarisColumn *null_column; /* that cannot be NULL, but would be */
} DirectState;

/* planning */

/* The scan of the result relation, or NULL when something stands between it and the ModifyTable. */
static ForeignScan *
find_scan(ModifyTable *plan, Index resultRelation, int subplan_index)
{
	Plan *subplan = outerPlan(plan);

	/* an inheritance tree; with a Result on top when its tables differ */
	if (IsA(subplan, Result) && outerPlan(subplan) != NULL && IsA(outerPlan(subplan), Append))
		subplan = outerPlan(subplan);
	if (IsA(subplan, Append))
	{
		Append *append = (Append *) subplan;

		if (subplan_index >= list_length(append->appendplans))
			return NULL;
		subplan = list_nth(append->appendplans, subplan_index);
	}
	if (!IsA(subplan, ForeignScan) || ((ForeignScan *) subplan)->scan.scanrelid != resultRelation)
		return NULL;
	return (ForeignScan *) subplan;
}

/* SET (a, b) = (SELECT ...): the parameter stands for a subquery that is run for each row below. */
static bool
contains_row_parameter(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_MULTIEXPR)
		return true;
	return expression_tree_walker(node, contains_row_parameter, context);
}

/* A value that is the same whichever row it is for. */
static bool
is_independent(Node *expression)
{
	return !contain_var_clause(expression) && !contain_volatile_functions(expression) &&
		   !contain_subplans(expression) && !contains_row_parameter(expression, NULL);
}

static bool
is_column(Node *node, Index varno, const ZarisColumn *column)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Var) && ((Var *) node)->varno == varno && ((Var *) node)->varattno == column->attnum &&
		   ((Var *) node)->varlevelsup == 0;
}

/* The expression of `version = expr`, or NULL when the clause is another. */
static Expr *
match_version_clause(const ZarisTable *table, Index varno, Node *clause)
{
	OpExpr *operator=(OpExpr *) clause;
	Node   *left;
	Node   *right;

	if (table->version == NULL || !IsA(clause, OpExpr) || list_length(operator->args) != 2 ||
		get_op_opfamily_strategy(operator->opno, INTEGER_BTREE_FAM_OID) != BTEqualStrategyNumber)
		return NULL;
	left = linitial(operator->args);
	right = lsecond(operator->args);
	if (is_column(left, varno, table->version) && is_independent(right))
		return (Expr *) right;
	if (is_column(right, varno, table->version) && is_independent(left))
		return (Expr *) left;
	return NULL;
}

/* Whether the clauses that the scan would check locally are none, or one about the version. */
static bool
match_quals(const ZarisTable *table, const ForeignScan *scan, Expr **version)
{
	*version = NULL;
	if (scan->scan.plan.qual == NIL)
		return true;
	if (list_length(scan->scan.plan.qual) != 1)
		return false;
	*version = match_version_clause(table, scan->scan.scanrelid, linitial(scan->scan.plan.qual));
	return *version != NULL;
}

static bool
is_null_constant(const Expr *expression)
{
	return IsA(expression, Const) && ((const Const *) expression)->constisnull;
}

/*
 * Whether an UPDATE's new values can be written without a look at the row.  NULL constants are left to the ordinary way,
 * which says precisely what is wrong with them; a NULL that only the execution knows is dealt with there.
 */
static bool
are_writable(const ZarisTable *table, List *columns, List *values)
{
	bool	  has_contents = false;
	bool	  only_nulls = true;
	ListCell *column_cell;
	ListCell *value_cell;

	forboth(column_cell, columns, value_cell, values)
	{
		const ZarisColumn *column = &table->columns[lfirst_int(column_cell) - 1];
		Expr			  *value = lfirst(value_cell);

		if (column->role == ZARIS_COLUMN_KEY || column->role == ZARIS_COLUMN_VERSION || !is_independent((Node *) value))
			return false;
		if (is_null_constant(value) && (column->not_null || column->role == ZARIS_COLUMN_VALUE))
			return false;
		if (column->role == ZARIS_COLUMN_EXPIRES_AT)
			continue;
		has_contents = true;
		only_nulls = only_nulls && is_null_constant(value);
	}

	/* a string is written whole, and a hash without its last field would be gone */
	if (table->layout == ZARIS_LAYOUT_STRING)
		return has_contents;
	return !has_contents || !only_nulls;
}

/* Constraints that need the whole row: CHECK, and a partition's bounds if a column of them is set. */
static bool
needs_row_check(Relation relation, List *columns)
{
	TupleConstr *constraints = RelationGetDescr(relation)->constr;
	Bitmapset	*bounds = NULL;
	ListCell	*cell;

	if (columns != NIL && constraints != NULL && constraints->num_check > 0)
		return true;
	if (columns == NIL || !relation->rd_rel->relispartition)
		return false;
	pull_varattnos((Node *) RelationGetPartitionQual(relation), 1, &bounds);
	foreach (cell, columns)
	{
		if (bms_is_member(lfirst_int(cell) - FirstLowInvalidHeapAttributeNumber, bounds))
			return true;
	}
	return false;
}

static List *
target_values(List *targetlist, List *columns)
{
	List	 *values = NIL;
	ListCell *column_cell;
	ListCell *target_cell;

	forboth(target_cell, targetlist, column_cell, columns)
		values = lappend(values, lfirst_node(TargetEntry, target_cell)->expr);
	return values;
}

bool
zaris_plan_direct_modify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index)
{
	ForeignScan *scan = find_scan(plan, resultRelation, subplan_index);
	List		*columns = NIL;
	List		*values = NIL;
	Expr		*version = NULL;
	Relation	 relation;
	ZarisTable	*table;
	bool		 possible;

	if ((plan->operation != CMD_UPDATE && plan->operation != CMD_DELETE) || plan->returningLists != NIL ||
		scan == NULL || intVal(list_nth(scan->fdw_private, ZARIS_PRIVATE_OPERATION)) != ZARIS_SCAN_GET)
		return false;
	relation = table_open(planner_rt_fetch(resultRelation, root)->relid, NoLock);
	table = zaris_table_open(relation);
	if (plan->operation == CMD_UPDATE)
	{
		List *targetlist;

		get_translated_update_targetlist(root, resultRelation, &targetlist, &columns);
		values = target_values(targetlist, columns);
	}
	possible = !table->read_only && match_quals(table, scan, &version) && !needs_row_check(relation, columns) &&
			   (plan->operation == CMD_DELETE || are_writable(table, columns, values));
	table_close(relation, NoLock);
	if (!possible)
		return false;

	scan->operation = plan->operation;
	scan->resultRelation = resultRelation;
	scan->fdw_exprs = list_concat(list_copy(scan->fdw_exprs), values);
	if (version != NULL)
		scan->fdw_exprs = lappend(scan->fdw_exprs, version);
	scan->scan.plan.qual = NIL;
	scan->fdw_recheck_quals = NIL;

	/* in the order of DirectPrivate */
	scan->fdw_private = list_make4(scan->fdw_private, columns, makeBoolean(version != NULL),
								   makeBoolean(plan->canSetTag));
	return true;
}

List *
zaris_direct_scan_private(const ForeignScan *plan)
{
	return list_nth(plan->fdw_private, DIRECT_PRIVATE_SCAN);
}

/* executing */

static void
init_expressions(DirectState *state, ForeignScanState *node, List *columns, bool has_version)
{
	const ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	int				   at = list_length(plan->fdw_exprs) - list_length(columns) - (has_version ? 1 : 0);
	ListCell		  *cell;

	state->set = palloc((list_length(columns) + 1) * sizeof(ZarisColumn *));
	state->values = palloc((list_length(columns) + 1) * sizeof(ExprState *));
	foreach (cell, columns)
	{
		state->set[state->n_set] = &state->writer->table->columns[lfirst_int(cell) - 1];
		state->values[state->n_set++] = ExecInitExpr(list_nth(plan->fdw_exprs, at++), &node->ss.ps);
	}
	if (has_version)
		state->version = ExecInitExpr(list_nth(plan->fdw_exprs, at), &node->ss.ps);
}

void
zaris_begin_direct_modify(ForeignScanState *node, int eflags)
{
	const ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState			  *estate = node->ss.ps.state;
	DirectState		  *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(*state));
	state->operation = plan->operation;
	state->set_tag = boolVal(list_nth(plan->fdw_private, DIRECT_PRIVATE_SET_TAG));
	state->writer = zaris_writer_open(estate, node->ss.ss_currentRelation,
									  ExecGetResultRelCheckAsUser(node->resultRelInfo, estate));
	zaris_written_remember(state->writer->written);
	state->lookup = zaris_lookup_create(state->writer->table, zaris_direct_scan_private(plan), plan->fdw_exprs,
										&node->ss.ps);
	state->context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw new values", ALLOCSET_SMALL_SIZES);
	init_expressions(state, node, list_nth(plan->fdw_private, DIRECT_PRIVATE_COLUMNS),
					 boolVal(list_nth(plan->fdw_private, DIRECT_PRIVATE_HAS_VERSION)));
	node->fdw_state = state;
}

/* False: the version is NULL, which no record's equals. */
static bool
evaluate_version(DirectState *state, ExprContext *econtext)
{
	bool  is_null;
	Datum value;

	state->precondition = ZARIS_IF_PRESENT;
	if (state->version == NULL)
		return true;
	state->precondition = ZARIS_IF_MATCH_VERSION;
	value = ExecEvalExprSwitchContext(state->version, econtext, &is_null);
	if (is_null)
		return false;
	switch (getBaseType(exprType((Node *) state->version->expr)))
	{
		case INT2OID:
			state->match_version = DatumGetInt16(value);
			break;
		case INT4OID:
			state->match_version = DatumGetInt32(value);
			break;
		default:
			state->match_version = DatumGetInt64(value);
	}
	return true;
}

/* Computed once: the values are the same for all keys. Runs in state->context. */
static void
evaluate_values(DirectState *state, ExprContext *econtext)
{
	const ZarisTable *table = state->writer->table;

	state->fields = palloc((state->n_set + 1) * sizeof(ZarisField));
	for (int i = 0; i < state->n_set; i++)
	{
		const ZarisColumn *column = state->set[i];
		bool			   is_null;
		Datum			   value = ExecEvalExprSwitchContext(state->values[i], econtext, &is_null);

		if (is_null && (column->not_null || column->role == ZARIS_COLUMN_VALUE))
			state->null_column = column;
		else if (column->role == ZARIS_COLUMN_VALUE)
			state->value = zaris_row_value(table, column, value, is_null);
		else if (column->role == ZARIS_COLUMN_EXPIRES_AT)
		{
			state->expiry = is_null ? ZARIS_EXPIRY_CLEAR : ZARIS_EXPIRY_SET;
			state->expires_at_ms = is_null ? 0 : zaris_row_expiry_ms(column, value);
		}
		else
		{
			state->fields[state->n_fields].name = column->field;
			state->fields[state->n_fields++].value = zaris_row_value(table, column, value, is_null);
		}
	}
}

/* What an answer means that says: the WHERE selects no such row. */
static unsigned
no_row(const DirectState *state)
{
	return ZARIS_TOLERATE(ZARIS_NOT_FOUND) | ZARIS_TOLERATE(ZARIS_WRONG_TYPE) |
		   (state->version != NULL ? ZARIS_TOLERATE(ZARIS_CONFLICT) : 0);
}

static void
send_key(DirectState *state, ZarisBytes key)
{
	ZarisOperation *operation;

	operation = zaris_writer_operation(state->writer,
									   state->operation == CMD_UPDATE ? ZARIS_OP_PUT : ZARIS_OP_DELETE, key, false);
	operation->precondition = state->precondition;
	operation->match_version = state->match_version;
	operation->value = state->value;
	operation->fields = state->n_fields > 0 ? state->fields : NULL;
	operation->n_fields = state->n_fields;
	operation->expiry = state->expiry;
	operation->expires_at_ms = state->expires_at_ms;
	zaris_writer_send(state->writer, operation, no_row(state), NULL);
}

/*
 * A column would become NULL that cannot: an error only if there is a row that it would happen to, so this is the one
 * case in which a look is taken.
 */
static void
require_no_row(DirectState *state, ZarisBytes key)
{
	ZarisWriter	   *writer = state->writer;
	ZarisOperation *get = zaris_writer_bare_operation(writer, ZARIS_OP_GET, key);

	get->want = state->version != NULL ? ZARIS_WANT_VERSION : 0;
	zaris_batch_submit(writer->guard->batch, get);
	zaris_writer_wait(writer);
	if (get->status == ZARIS_NOT_FOUND || get->status == ZARIS_WRONG_TYPE)
		return;
	if (get->status != ZARIS_OK)
		zaris_raise_operation(writer->session, get, writer->table->name);
	if (state->version == NULL || get->version == state->match_version)
		zaris_row_raise_null(writer->table, state->null_column);
}

static void
write_all(DirectState *state)
{
	ZarisWriter *writer = state->writer;

	for (;;)
	{
		MemoryContext  caller;
		StringInfoData key;
		ZarisBytes	   bytes;

		zaris_writer_row(writer);
		caller = MemoryContextSwitchTo(writer->context);
		initStringInfo(&key);
		if (!zaris_lookup_next(state->lookup, &key))
		{
			MemoryContextSwitchTo(caller);
			break;
		}
		bytes = (ZarisBytes){key.data, key.len};
		if (state->null_column != NULL)
			require_no_row(state, bytes);
		else if (!zaris_writer_has_written(writer, bytes))
			send_key(state, bytes);
		MemoryContextSwitchTo(caller);
	}
	zaris_writer_drain(writer);
}

TupleTableSlot *
zaris_iterate_direct_modify(ForeignScanState *node)
{
	DirectState		*state = node->fdw_state;
	ExprContext		*econtext = node->ss.ps.ps_ExprContext;
	Instrumentation *instrument = node->ss.ps.instrument;
	MemoryContext	 caller = MemoryContextSwitchTo(state->context);
	bool			 may_match = evaluate_version(state, econtext);

	evaluate_values(state, econtext);
	MemoryContextSwitchTo(caller);
	if (may_match)
	{
		zaris_lookup_evaluate(state->lookup, econtext);
		write_all(state);
	}
	if (state->set_tag)
		node->ss.ps.state->es_processed += state->writer->applied;
	if (instrument != NULL)
		instrument->tuplecount += state->writer->applied;
	return ExecClearTuple(node->ss.ss_ScanTupleSlot);
}

void
zaris_end_direct_modify(ForeignScanState *node)
{
	DirectState *state = node->fdw_state;

	if (state == NULL)
		return;
	zaris_writer_close(state->writer);
	node->fdw_state = NULL;
}

/* EXPLAIN */

void
zaris_direct_describe(ForeignScanState *node, ZarisModifyDescription *description)
{
	const ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	const DirectState *state = node->fdw_state;
	const ZarisWriter *writer;
	bool			   has_version = boolVal(list_nth(plan->fdw_private, DIRECT_PRIVATE_HAS_VERSION));

	memset(description, 0, sizeof(*description));
	if (plan->operation == CMD_UPDATE)
		description->operation = has_version ? "Put IfMatchVersion" : "Put IfPresent";
	else
		description->operation = has_version ? "Delete IfMatchVersion" : "Delete IfPresent";
	description->batch_size = zaris_table_open(node->ss.ss_currentRelation)->batch_size;
	if (state == NULL || node->ss.ps.instrument == NULL)
		return;
	writer = state->writer;
	description->has_counts = true;
	description->writes = writer->writes;
	description->applied = writer->applied;
	description->attempts = writer->attempts;
	description->waits = writer->waits;
}
