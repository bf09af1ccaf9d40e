/*
 * joinscan.c
 *	  The batched lookup join, the executor's side.
 *
 * A group goes through these steps:
 *
 *		read		outer rows are taken and kept; each row's keys are worked out, and each key that is new to the group is asked
 *					for at once, while more rows are read
 *		wait		for all answers
 *		match		row by row, key by key: the record becomes the inner half of the scan tuple, and all clauses are
 *					checked on the pair, also those that the keys imply
 *
 * Two groups take turns: while one is matched, the next has been read and its answers are on their way.  The first group is
 * small, for a LIMIT above, and nothing is read ahead of it.
 *
 * Records are taken apart only when they are matched, so that a group holds outer rows and bytes.  It ends at its size (from
 * ZARIS_JOIN_FIRST_GROUP to batch_size rows), or before the two would outgrow work_mem: what the records of the next
 * group will take is judged by those that have come.
 */
#include "postgres.h"

#include "access/table.h"
#include "backend/compat.h"
#include "backend/session.h"
#include "backend/wait.h"
#include "fdw/explain.h"
#include "fdw/fetch.h"
#include "fdw/gets.h"
#include "fdw/join.h"
#include "fdw/joingroup.h"
#include "fdw/lookup.h"
#include "fdw/options.h"
#include "fdw/written.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* Columns of the scan tuple that come from one side. */
typedef struct TupleHalf
{
	int	 n;
	int *from; /* index in that side's slot */
	int *to;   /* index in the scan tuple */
} TupleHalf;

typedef struct LookupJoin
{
	CustomScanState css; /* must be first */
	JoinType		type;
	Oid				relid; /* of the inner table */
	Oid				userid;

	ZarisTable	   *table;
	ZarisFetch	   *fetch;
	ZarisLookup	   *lookup;
	ExprState	   *inner_quals;
	ExprState	   *join_quals;
	TupleHalf		outer_half;
	TupleHalf		inner_half;
	TupleTableSlot *outer_slot; /* the present outer row */
	TupleTableSlot *inner_slot; /* the present record */
	ZarisSession   *session;	/* found with the first group */

	ZarisJoinGroup groups[2];
	int			   current; /* the one that is matched; the other may be on its way */
	bool		   outer_is_done;

	/* matching */
	int	 row;	  /* of the current group */
	int	 key;	  /* of the row */
	bool matched; /* the row had a match */

	/* sizes of the groups to come */
	int	   size;		 /* most rows */
	double record_bytes; /* of a record, the largest average of a group so far */
	double seen_bytes;	 /* of the records of the current group that were matched so far */
	double n_seen;

	bool			counting; /* EXPLAIN ANALYZE */
	ZarisScanCounts counts;
} LookupJoin;

/* the scan tuple */

/* slot NULL: all NULL */
static void
fill_half(TupleTableSlot *scan, const TupleHalf *half, TupleTableSlot *slot)
{
	if (slot != NULL)
		slot_getallattrs(slot);
	for (int i = 0; i < half->n; i++)
	{
		scan->tts_values[half->to[i]] = slot != NULL ? slot->tts_values[half->from[i]] : (Datum) 0;
		scan->tts_isnull[half->to[i]] = slot == NULL || slot->tts_isnull[half->from[i]];
	}
}

/* Put the scan tuple together from an outer row and a record; inner NULL = NULLs in its place. */
static TupleTableSlot *
fill_scan_tuple(LookupJoin *state, TupleTableSlot *outer, TupleTableSlot *inner)
{
	TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(scan);
	fill_half(scan, &state->outer_half, outer);
	fill_half(scan, &state->inner_half, inner);
	return ExecStoreVirtualTuple(scan);
}

/* reading a group */

static bool
is_full(const LookupJoin *state, const ZarisJoinGroup *group)
{
	double half_of_work_mem = work_mem * 1024.0 / lengthof(state->groups);

	return group->n_rows >= state->size || group->bytes + group->n_distinct * state->record_bytes >= half_of_work_mem;
}

/* Take outer rows into a group and ask for their keys. It stays empty when there are no more. */
static void
read_group(LookupJoin *state, ZarisJoinGroup *group)
{
	PlanState	  *outer = linitial(state->css.custom_ps);
	ExprContext	  *econtext = state->css.ss.ps.ps_ExprContext;
	StringInfoData scratch;

	if (state->outer_is_done)
		return;
	zaris_join_group_begin(group, state->session);
	initStringInfo(&scratch);
	while (!is_full(state, group))
	{
		TupleTableSlot *slot = ExecProcNode(outer);

		if (TupIsNull(slot))
		{
			state->outer_is_done = true;
			break;
		}
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = fill_scan_tuple(state, slot, NULL);
		zaris_lookup_evaluate(state->lookup, econtext);
		zaris_join_group_add(group, slot, state->lookup, &scratch);
	}
	pfree(scratch.data);
}

/* Learn from the group that is through how large the next may be. */
static void
adapt_size(LookupJoin *state)
{
	state->size = Min(state->size * ZARIS_JOIN_GROWTH, state->table->batch_size);
	if (state->n_seen > 0)
		state->record_bytes = Max(state->record_bytes, state->seen_bytes / state->n_seen);
	state->seen_bytes = state->n_seen = 0;
}

static void
count_since(LookupJoin *state, const ZarisClientStats *before)
{
	const ZarisClientStats *now = zaris_client_stats(state->session->client);

	if (!state->counting)
		return;
	state->counts.requests += now->requests - before->requests;
	state->counts.round_trips += now->flushes - before->flushes;
	state->counts.bytes += now->result_bytes - before->result_bytes;
	state->counts.retries += now->retries - before->retries;
	state->counts.redirects += now->redirects - before->redirects;
}

/* Go on to the group that is on its way, or to a new one. False: there are no more outer rows. */
static bool
next_group(LookupJoin *state)
{
	ZarisJoinGroup	*through = &state->groups[state->current];
	ZarisJoinGroup	*group = &state->groups[1 - state->current];
	bool			 is_first = group->n_rows == 0 && through->n_rows == 0;
	ZarisClientStats before;

	if (state->session == NULL)
		state->session = zaris_options_session(state->table->serverid, state->userid);
	before = *zaris_client_stats(state->session->client);

	/* what the slots point to goes with the group that is through */
	ExecClearTuple(state->outer_slot);
	ExecClearTuple(state->inner_slot);
	ExecClearTuple(state->css.ss.ss_ScanTupleSlot);
	through->n_rows = 0;
	state->current = 1 - state->current;
	state->row = state->key = 0;
	state->matched = false;

	if (!is_first)
		adapt_size(state);
	if (group->n_rows == 0)
		read_group(state, group);
	if (group->n_rows == 0)
		return false;
	if (group->n_distinct > 0)
		zaris_wait_batch(group->guard);
	if (!is_first)
		read_group(state, through);
	if (through->n_rows > 0)
		zaris_wait_poll(through->guard); /* off they go */
	count_since(state, &before);
	ExecStoreMinimalTuple(group->rows[0].tuple, state->outer_slot, false);
	return true;
}

/* matching */

/* Whether there is a record for a key, and make it the present one. Raises what went wrong. */
static bool
take_record(LookupJoin *state, const ZarisOperation *operation)
{
	ExprContext	 *econtext = state->css.ss.ps.ps_ExprContext;
	ZarisRecord	  record;
	MemoryContext caller;
	bool		  stored;

	state->n_seen++;
	state->seen_bytes += zaris_get_bytes(operation);
	if (!zaris_get_record(operation, state->session, state->table, &record, &state->counts.skipped))
		return false;

	/* what this very statement has created is none of the rows that it reads (written.h) */
	if (zaris_written_created(state->css.ss.ps.state, state->table->serverid, record.key))
		return false;
	ExecClearTuple(state->inner_slot);
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	stored = zaris_fetch_store(state->fetch, &record, state->inner_slot);
	MemoryContextSwitchTo(caller);
	if (!stored)
		state->counts.skipped++;
	return stored;
}

/* Whether the present row and the record of a key match; then the scan tuple holds the pair. */
static bool
is_match(LookupJoin *state, const ZarisOperation *operation)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;

	ResetExprContext(econtext);
	if (!take_record(state, operation))
		return false;
	econtext->ecxt_scantuple = fill_scan_tuple(state, state->outer_slot, state->inner_slot);
	return ExecQual(state->inner_quals, econtext) && ExecQual(state->join_quals, econtext);
}

/* The next pair of the present row that comes out, in the scan tuple. False: the row is through. */
static bool
next_of_row(LookupJoin *state)
{
	const ZarisJoinGroup *group = &state->groups[state->current];
	const ZarisJoinRow	 *row = &group->rows[state->row];
	bool				  once = state->type == JOIN_SEMI || state->type == JOIN_ANTI;

	while (state->key < row->n_keys && !(once && state->matched))
	{
		if (!is_match(state, group->operations[row->first + state->key++]))
			continue;
		state->matched = true;
		if (state->type != JOIN_ANTI)
			return true;
	}
	if (state->matched || (state->type != JOIN_LEFT && state->type != JOIN_ANTI))
		return false;

	/* without a match the row comes out alone, but only once */
	state->matched = true;
	fill_scan_tuple(state, state->outer_slot, NULL);
	return true;
}

static void
next_outer_row(LookupJoin *state)
{
	const ZarisJoinGroup *group = &state->groups[state->current];

	state->key = 0;
	state->matched = false;
	if (++state->row < group->n_rows)
		ExecStoreMinimalTuple(group->rows[state->row].tuple, state->outer_slot, false);
}

/* What ExecScan filters and projects. */
static TupleTableSlot *
next_tuple(ScanState *node)
{
	LookupJoin *state = (LookupJoin *) node;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (state->row == state->groups[state->current].n_rows && !next_group(state))
			return NULL;
		if (next_of_row(state))
			return node->ss_ScanTupleSlot;
		next_outer_row(state);
	}
}

/* No row of ours is looked at again: see is_supported_query() in join.c. */
static bool
recheck_tuple(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

/* callbacks */

/* Which of the inner table's columns the scan tuple has. */
static List *
inner_columns(const List *sources)
{
	List	 *columns = NIL;
	ListCell *cell;

	foreach (cell, sources)
	{
		if (lfirst_int(cell) < 0)
			columns = lappend_int(columns, -lfirst_int(cell));
	}
	return columns;
}

/* Divide the scan tuple: see ZARIS_JOIN_SOURCES. */
static void
make_halves(LookupJoin *state, const List *sources)
{
	TupleHalf *halves[] = {&state->outer_half, &state->inner_half};
	ListCell  *cell;

	for (int i = 0; i < lengthof(halves); i++)
	{
		halves[i]->from = palloc(list_length(sources) * sizeof(int));
		halves[i]->to = palloc(list_length(sources) * sizeof(int));
	}
	foreach (cell, sources)
	{
		int		   source = lfirst_int(cell);
		TupleHalf *half = source < 0 ? &state->inner_half : &state->outer_half;

		half->from[half->n] = abs(source) - 1;
		half->to[half->n++] = foreach_current_index(cell);
	}
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LookupJoin *state = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *sources = list_nth(plan->custom_private, ZARIS_JOIN_SOURCES);
	PlanState  *outer = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	Relation	relation = table_open(state->relid, NoLock); /* the range table holds the lock */

	node->custom_ps = list_make1(outer);
	state->table = zaris_table_open(relation);
	state->inner_slot = ExecInitExtraTupleSlot(estate, CreateTupleDescCopy(RelationGetDescr(relation)), &TTSOpsVirtual);
	table_close(relation, NoLock);

	state->fetch = zaris_fetch_create(state->table, inner_columns(sources), false);
	state->lookup = zaris_lookup_create(state->table, list_nth(plan->custom_private, ZARIS_JOIN_KEYS),
										list_nth(plan->custom_exprs, ZARIS_JOIN_KEY_VALUES), &node->ss.ps);
	state->inner_quals = ExecInitQual(list_nth(plan->custom_exprs, ZARIS_JOIN_INNER_QUALS), &node->ss.ps);
	state->join_quals = ExecInitQual(list_nth(plan->custom_exprs, ZARIS_JOIN_JOIN_QUALS), &node->ss.ps);
	state->outer_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outer), &TTSOpsMinimalTuple);
	make_halves(state, sources);
	for (int i = 0; i < lengthof(state->groups); i++)
		zaris_join_group_init(&state->groups[i], state->fetch, state->table->batch_size, CurrentMemoryContext);
	state->size = Min(ZARIS_JOIN_FIRST_GROUP, state->table->batch_size);
	state->counting = estate->es_instrument != 0;
}

static TupleTableSlot *
next_row(CustomScanState *node)
{
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

static void
drop_groups(LookupJoin *state)
{
	ExecClearTuple(state->outer_slot);
	ExecClearTuple(state->inner_slot);
	for (int i = 0; i < lengthof(state->groups); i++)
		zaris_join_group_drop(&state->groups[i]);
	state->row = 0;
}

/* Back to the start: the size is a new query's, what is known of the records stays. */
static void
rescan_join(CustomScanState *node)
{
	LookupJoin *state = (LookupJoin *) node;
	PlanState  *outer = linitial(node->custom_ps);

	drop_groups(state);
	state->outer_is_done = false;
	state->size = Min(ZARIS_JOIN_FIRST_GROUP, state->table->batch_size);
	ExecScanReScan(&node->ss);
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(outer, node->ss.ps.chgParam);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

static void
end_join(CustomScanState *node)
{
	LookupJoin *state = (LookupJoin *) node;

	drop_groups(state);
	for (int i = 0; i < lengthof(state->groups); i++)
	{
		if (state->groups[i].guard != NULL)
			zaris_guard_free(state->groups[i].guard);
		state->groups[i].guard = NULL;
	}
	ExecEndNode(linitial(node->custom_ps));
}

static const char *
type_text(JoinType type)
{
	switch (type)
	{
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			return "Inner";
	}
}

static void
explain_quals(const char *label, List *quals, CustomScan *plan, List *ancestors, ExplainState *es)
{
	List *context;

	if (quals == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	ExplainPropertyText(label, deparse_expression((Node *) make_ands_explicit(quals), context, true, false), es);
}

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupJoin *state = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	const char *name = quote_identifier(state->table->name);

	if (es->verbose)
		name = psprintf("%s.%s", quote_identifier(get_namespace_name(get_rel_namespace(state->relid))), name);
	ExplainPropertyText("Join Type", type_text(state->type), es);
	ExplainPropertyText("Foreign Table", name, es);
	ExplainPropertyText("Operation", "Get many, batched", es);
	zaris_explain_keys(state->table, &plan->scan.plan, list_nth(plan->custom_private, ZARIS_JOIN_KEYS),
					   list_nth(plan->custom_exprs, ZARIS_JOIN_KEY_VALUES), es);
	explain_quals("Inner Filter", list_nth(plan->custom_exprs, ZARIS_JOIN_INNER_QUALS), plan, ancestors, es);
	explain_quals("Join Cond", list_nth(plan->custom_exprs, ZARIS_JOIN_JOIN_QUALS), plan, ancestors, es);
	ExplainPropertyText("Fetches", zaris_fetch_description(state->fetch), es);
	if (es->verbose)
		ExplainPropertyInteger("Batch Size", NULL, state->table->batch_size, es);
	if (es->analyze)
		zaris_explain_counts(&state->counts, es);
}

static const CustomExecMethods methods = {
	.CustomName = ZARIS_JOIN_NODE,
	.BeginCustomScan = begin_join,
	.ExecCustomScan = next_row,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
	.ExplainCustomScan = explain_join,
};

Node *
zaris_joinscan_create(CustomScan *plan)
{
	LookupJoin *state = (LookupJoin *) newNode(sizeof(LookupJoin), T_CustomScanState);
	List	   *relation = list_nth(plan->custom_private, ZARIS_JOIN_RELATION);

	state->css.methods = &methods;
	state->type = (JoinType) intVal(list_nth(plan->custom_private, ZARIS_JOIN_TYPE));
	state->relid = linitial_oid(relation);
	state->userid = lsecond_oid(relation);
	if (!OidIsValid(state->userid))
		state->userid = GetUserId();
	return (Node *) state;
}
