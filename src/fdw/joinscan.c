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
 * Records are taken apart only when they are matched, so that a group holds outer rows and bytes.  It ends at its size (from
 * ZARIS_JOIN_FIRST_GROUP to batch_size rows), or before it would outgrow work_mem: what the records of the next group
 * will take is judged by those that have come.
 */
#include "postgres.h"

#include "access/table.h"
#include "backend/compat.h"
#include "backend/error.h"
#include "backend/session.h"
#include "backend/wait.h"
#include "common/hashfn.h"
#include "fdw/explain.h"
#include "fdw/fetch.h"
#include "fdw/join.h"
#include "fdw/lookup.h"
#include "fdw/options.h"
#include "fdw/written.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* While a group is read, what was asked for is sent after so many keys: the nodes work meanwhile. */
#define KEYS_A_FLUSH 128

/* An outer row of the group. */
typedef struct GroupRow
{
	MinimalTuple tuple;
	int			 first; /* of its keys, in LookupJoin.keys */
	int			 n_keys;
} GroupRow;

/* A key of the group; rows that name the same one share the operation. */
typedef struct GroupKey
{
	ZarisBytes		key; /* first: what the hash table compares */
	ZarisOperation *operation;
} GroupKey;

typedef struct LookupJoin
{
	CustomScanState css; /* must be first */
	JoinType		type;
	Oid				relid; /* of the inner table */
	Oid				userid;
	List		   *sources; /* see ZARIS_JOIN_SOURCES */

	ZarisTable	   *table;
	ZarisFetch	   *fetch;
	ZarisLookup	   *lookup;
	ExprState	   *inner_quals;
	ExprState	   *join_quals;
	TupleTableSlot *outer_slot; /* the present outer row */
	TupleTableSlot *inner_slot; /* the present record */
	ZarisSession   *session;	/* found with the first group */
	ZarisGuard	   *guard;

	/* the group */
	MemoryContext	 group_context;
	GroupRow		*rows; /* batch_size of them */
	int				 n_rows;
	ZarisOperation **keys; /* of all rows, one after the other */
	int				 n_keys;
	int				 n_allocated;
	HTAB			*distinct; /* of GroupKey */
	int				 n_asked;  /* entries of distinct */
	Size			 bytes;	   /* what it holds, without the records */
	bool			 outer_is_done;

	/* matching */
	int	 row;
	int	 key;	  /* of the row */
	bool matched; /* the row had a match */

	/* sizes of the groups to come */
	int	   size;		 /* most rows */
	double record_bytes; /* of a record, the largest average of a group so far */

	bool			counting; /* EXPLAIN ANALYZE */
	ZarisScanCounts counts;
} LookupJoin;

/* the scan tuple */

/* Put one half of the scan tuple together: columns of the outer row (inner = false) or of the record; slot NULL = all NULL. */
static void
fill_half(LookupJoin *state, bool inner, TupleTableSlot *slot)
{
	TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot;
	ListCell	   *cell;

	if (slot != NULL)
		slot_getallattrs(slot);
	foreach (cell, state->sources)
	{
		int source = lfirst_int(cell);
		int i = foreach_current_index(cell);

		if ((source < 0) != inner)
			continue;
		scan->tts_values[i] = slot != NULL ? slot->tts_values[abs(source) - 1] : (Datum) 0;
		scan->tts_isnull[i] = slot != NULL ? slot->tts_isnull[abs(source) - 1] : true;
	}
}

/* The scan tuple is a virtual one: its halves are filled in place. */
static TupleTableSlot *
begin_scan_tuple(LookupJoin *state, TupleTableSlot *outer)
{
	TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(scan);
	fill_half(state, false, outer);
	fill_half(state, true, NULL);
	return ExecStoreVirtualTuple(scan);
}

/* reading a group */

static uint32
hash_key(const void *key, Size size)
{
	const ZarisBytes *bytes = key;

	return hash_bytes((const unsigned char *) bytes->data, (int) bytes->len);
}

static int
compare_keys(const void *a, const void *b, Size size)
{
	const ZarisBytes *left = a;
	const ZarisBytes *right = b;

	return left->len == right->len ? memcmp(left->data, right->data, left->len) : 1;
}

static void
begin_group(LookupJoin *state)
{
	HASHCTL control = {
		.keysize = sizeof(ZarisBytes),
		.entrysize = sizeof(GroupKey),
		.hash = hash_key,
		.match = compare_keys,
		.hcxt = state->group_context,
	};

	ExecClearTuple(state->outer_slot);
	ExecClearTuple(state->inner_slot);
	ExecClearTuple(state->css.ss.ss_ScanTupleSlot);
	if (state->guard == NULL)
		state->guard = zaris_guard_batch(state->session, state->css.ss.ps.state->es_query_cxt);
	else
		zaris_batch_reset(state->guard->batch);
	MemoryContextReset(state->group_context);
	state->distinct = hash_create("zaris_fdw join keys", 256, &control,
								  HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	state->n_rows = state->n_keys = state->n_asked = 0;
	state->bytes = 0;
	state->row = state->key = 0;
	state->matched = false;
}

static void
raise_out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while making requests to the store.")));
}

static ZarisOperation *
submit_get(LookupJoin *state, ZarisBytes key)
{
	ZarisBatch		 *batch = state->guard->batch;
	const ZarisFetch *fetch = state->fetch;
	ZarisOperation	 *operation = zaris_batch_operation(batch);

	if (operation == NULL)
		raise_out_of_memory();
	operation->kind = ZARIS_OP_GET;
	operation->record = state->table->record;
	operation->key = key;
	operation->want = fetch->want;
	if (fetch->n_fields > 0)
	{
		operation->fields = zaris_batch_alloc(batch, fetch->n_fields * sizeof(ZarisField));
		if (operation->fields == NULL)
			raise_out_of_memory();
		for (int i = 0; i < fetch->n_fields; i++)
			operation->fields[i] = (ZarisField){.name = fetch->field_names[i]};
		operation->n_fields = fetch->n_fields;
	}
	zaris_batch_submit(batch, operation);
	if (++state->n_asked % KEYS_A_FLUSH == 0)
		zaris_wait_poll(state->guard);
	return operation;
}

/* The operation for a key, asked for if it is new to the group. */
static ZarisOperation *
operation_for(LookupJoin *state, const StringInfoData *text)
{
	ZarisBytes key = {text->data, text->len};
	GroupKey  *entry = hash_search(state->distinct, &key, HASH_FIND, NULL);
	char	  *data;

	if (entry != NULL)
		return entry->operation;

	/* the entry's key lives as long as the group */
	data = MemoryContextAlloc(state->group_context, Max(text->len, 1));
	memcpy(data, text->data, text->len);
	key.data = data;
	entry = hash_search(state->distinct, &key, HASH_ENTER, NULL);
	entry->operation = NULL;
	entry->operation = submit_get(state, key);
	state->bytes += text->len + sizeof(GroupKey) + sizeof(ZarisOperation) + state->fetch->n_fields * sizeof(ZarisField);
	return entry->operation;
}

static void
append_key(LookupJoin *state, ZarisOperation *operation)
{
	if (state->n_keys == state->n_allocated)
	{
		state->n_allocated *= 2;
		state->keys = repalloc_huge(state->keys, state->n_allocated * sizeof(ZarisOperation *));
	}
	state->keys[state->n_keys++] = operation;
}

/* Keep an outer row and ask for its keys. NULLs, and values that no key can have, give none. */
static void
take_row(LookupJoin *state, TupleTableSlot *outer, StringInfo text)
{
	ExprContext	 *econtext = state->css.ss.ps.ps_ExprContext;
	GroupRow	 *row = &state->rows[state->n_rows];
	MemoryContext caller;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = begin_scan_tuple(state, outer);
	row->first = state->n_keys;
	zaris_lookup_evaluate(state->lookup, econtext);
	while (zaris_lookup_next(state->lookup, text))
		append_key(state, operation_for(state, text));
	row->n_keys = state->n_keys - row->first;

	caller = MemoryContextSwitchTo(state->group_context);
	row->tuple = ExecCopySlotMinimalTuple(outer);
	MemoryContextSwitchTo(caller);
	state->bytes += row->tuple->t_len + row->n_keys * sizeof(ZarisOperation *);
	state->n_rows++;
}

static bool
group_is_full(const LookupJoin *state)
{
	return state->n_rows >= state->size ||
		   state->bytes + state->n_asked * state->record_bytes >= work_mem * 1024.0;
}

static Size
result_bytes(const ZarisOperation *operation)
{
	Size bytes = operation->result.len;

	for (int i = 0; i < operation->n_fields; i++)
		bytes += operation->fields[i].value.len;
	return bytes;
}

/* Learn from this group how large the next may be. */
static void
adapt_size(LookupJoin *state)
{
	HASH_SEQ_STATUS status;
	GroupKey	   *entry;
	double			bytes = 0;

	state->size = Min(state->size * ZARIS_JOIN_GROWTH, state->table->batch_size);
	if (state->n_asked == 0)
		return;
	hash_seq_init(&status, state->distinct);
	while ((entry = hash_seq_search(&status)) != NULL)
		bytes += result_bytes(entry->operation);
	state->record_bytes = Max(state->record_bytes, bytes / state->n_asked);
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

/* Read the next group and wait for its records. False: the outer side has no more rows. */
static bool
read_group(LookupJoin *state)
{
	PlanState		*outer = linitial(state->css.custom_ps);
	ZarisClientStats before;
	StringInfoData	 text;

	if (state->outer_is_done)
		return false;
	if (state->session == NULL)
		state->session = zaris_options_session(state->table->serverid, state->userid);
	begin_group(state);
	before = *zaris_client_stats(state->session->client);
	initStringInfo(&text);
	while (!group_is_full(state))
	{
		TupleTableSlot *slot = ExecProcNode(outer);

		if (TupIsNull(slot))
		{
			state->outer_is_done = true;
			break;
		}
		take_row(state, slot, &text);
	}
	pfree(text.data);
	if (state->n_asked > 0)
		zaris_wait_batch(state->guard);
	count_since(state, &before);
	adapt_size(state);
	return state->n_rows > 0;
}

/* matching */

/* Whether there is a record, and make it the present one. Raises what went wrong. */
static bool
take_record(LookupJoin *state, const ZarisOperation *operation)
{
	ZarisRecord record = {
		.key = operation->key,
		.value = operation->result,
		.fields = operation->fields,
		.n_fields = operation->n_fields,
		.version = operation->version,
		.has_version = operation->has_version,
		.expiry_ms = operation->expiry_ms,
	};
	ExprContext	 *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext caller;
	bool		  stored;

	if (operation->status == ZARIS_NOT_FOUND)
		return false;
	if (operation->status == ZARIS_WRONG_TYPE)
	{
		state->counts.skipped++;
		return false; /* a key of another kind is no row */
	}
	if (operation->status != ZARIS_OK)
		zaris_raise_operation(state->session, operation, state->table->name);

	/* what this very statement has created is none of the rows that it reads (written.h) */
	if (zaris_written_created(state->css.ss.ps.state, state->table->serverid, operation->key))
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
	econtext->ecxt_scantuple = begin_scan_tuple(state, state->outer_slot);
	fill_half(state, true, state->inner_slot);
	return ExecQual(state->inner_quals, econtext) && ExecQual(state->join_quals, econtext);
}

/* The next pair of the present row that comes out, in the scan tuple. False: the row is through. */
static bool
next_of_row(LookupJoin *state)
{
	const GroupRow *row = &state->rows[state->row];
	bool			once = state->type == JOIN_SEMI || state->type == JOIN_ANTI;

	while (state->key < row->n_keys && !(once && state->matched))
	{
		if (!is_match(state, state->keys[row->first + state->key++]))
			continue;
		state->matched = true;
		if (state->type != JOIN_ANTI)
			return true;
	}
	if (state->matched || (state->type != JOIN_LEFT && state->type != JOIN_ANTI))
		return false;

	/* without a match the row comes out alone, but only once */
	state->matched = true;
	begin_scan_tuple(state, state->outer_slot);
	return true;
}

/* What ExecScan filters and projects. */
static TupleTableSlot *
next_tuple(ScanState *node)
{
	LookupJoin *state = (LookupJoin *) node;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (state->row == state->n_rows)
		{
			if (!read_group(state))
				return NULL;
			ExecStoreMinimalTuple(state->rows[0].tuple, state->outer_slot, false);
		}
		if (next_of_row(state))
			return node->ss_ScanTupleSlot;
		state->key = 0;
		state->matched = false;
		if (++state->row < state->n_rows)
			ExecStoreMinimalTuple(state->rows[state->row].tuple, state->outer_slot, false);
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

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LookupJoin *state = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	PlanState  *outer = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	Relation	relation;

	node->custom_ps = list_make1(outer);
	/* the range table holds the lock */
	relation = table_open(state->relid, NoLock);
	state->table = zaris_table_open(relation);
	state->fetch = zaris_fetch_create(state->table, inner_columns(state->sources), false);
	state->lookup = zaris_lookup_create(state->table, list_nth(plan->custom_private, ZARIS_JOIN_KEYS),
										list_nth(plan->custom_exprs, ZARIS_JOIN_KEY_VALUES), &node->ss.ps);
	state->inner_quals = ExecInitQual(list_nth(plan->custom_exprs, ZARIS_JOIN_INNER_QUALS), &node->ss.ps);
	state->join_quals = ExecInitQual(list_nth(plan->custom_exprs, ZARIS_JOIN_JOIN_QUALS), &node->ss.ps);
	state->outer_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outer), &TTSOpsMinimalTuple);
	state->inner_slot = ExecInitExtraTupleSlot(estate, CreateTupleDescCopy(RelationGetDescr(relation)), &TTSOpsVirtual);
	table_close(relation, NoLock);

	state->group_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw join", ALLOCSET_DEFAULT_SIZES);
	state->rows = palloc_extended(state->table->batch_size * sizeof(GroupRow), MCXT_ALLOC_HUGE);
	state->n_allocated = 256;
	state->keys = palloc(state->n_allocated * sizeof(ZarisOperation *));
	state->size = Min(ZARIS_JOIN_FIRST_GROUP, state->table->batch_size);
	state->counting = estate->es_instrument != 0;
}

static TupleTableSlot *
next_row(CustomScanState *node)
{
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

/* Back to the start; connections and the batch's memory are kept. Between two calls nothing is in flight. */
static void
rescan_join(CustomScanState *node)
{
	LookupJoin *state = (LookupJoin *) node;
	PlanState  *outer = linitial(node->custom_ps);

	state->n_rows = state->row = 0;
	state->outer_is_done = false;
	state->size = Min(ZARIS_JOIN_FIRST_GROUP, state->table->batch_size);
	ExecClearTuple(state->outer_slot);
	ExecClearTuple(state->inner_slot);
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

	if (state->guard != NULL)
		zaris_guard_free(state->guard);
	state->guard = NULL;
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
	state->sources = list_nth(plan->custom_private, ZARIS_JOIN_SOURCES);
	return (Node *) state;
}
