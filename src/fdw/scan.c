/*
 * scan.c
 *	  Execution of reads: PostgreSQL's callbacks.
 *
 * A node is in one of these states:
 *
 *		idle		nothing evaluated, nothing sent: after Begin and after each ReScan
 *		running		keys or prefix are known; work hangs on the guard
 *		finished	no more rows; a scan's guard is freed
 *
 * A Get keeps its guard and batch through rescans, since a nested loop's inner side makes thousands of them; between
 * two calls none of its operations is in flight.  A Scan gets a new guard each time, which takes along what was
 * asked for ahead.
 */
#include "postgres.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "backend/session.h"
#include "backend/wait.h"
#include "fdw/fetch.h"
#include "fdw/lookup.h"
#include "fdw/options.h"
#include "fdw/plan.h"
#include "fdw/scan.h"
#include "fdw/table.h"
#include "fdw/written.h"

typedef struct ReadState
{
	EState	   *estate;
	ZarisTable *table;
	ZarisScanOperation operation;
	ZarisLookup *lookup;
	ZarisFetch *fetch;
	int			row_hint;
	Oid			userid;
	ZarisSession *session;		/* found with the first row */
	bool		running;
	bool		finished;
	ZarisGuard *guard;			/* of a batch or a scan, by operation; NULL = none yet */
	MemoryContext work_context; /* keys of the batch; or the scan's guard and prefix */
	MemoryContext row_context;	/* what the present row points to */

	/* Get */
	ZarisOperation **operations;
	int			n_operations;
	int			at;				/* the next one to be looked at */
	int			batch_limit;	/* of the next batch */

	bool		counting;		/* EXPLAIN ANALYZE */
	ZarisScanCounts counts;
} ReadState;

/* counts */

/* The client works for several nodes, so what a node caused is what changed while it was waiting. */
static ZarisClientStats
stats_before(const ReadState *state)
{
	if (!state->counting)
		return (ZarisClientStats) {0};
	return *zaris_client_stats(state->session->client);
}

static void
count_since(ReadState *state, const ZarisClientStats *before)
{
	const ZarisClientStats *now;

	if (!state->counting)
		return;
	now = zaris_client_stats(state->session->client);
	state->counts.requests += now->requests - before->requests;
	state->counts.round_trips += now->flushes - before->flushes;
	state->counts.bytes += now->result_bytes - before->result_bytes;
	state->counts.retries += now->retries - before->retries;
	state->counts.redirects += now->redirects - before->redirects;
}

/* Keys that the running scan has dropped by itself. */
static uint64
dropped_keys(const ReadState *state)
{
	const ZarisScanStats *stats;

	if (state->guard == NULL || state->guard->scan == NULL)
		return 0;
	stats = zaris_scan_stats(state->guard->scan);
	return stats->duplicates + stats->foreign_slots + stats->vanished;
}

/* Get */

static void
raise_out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while making requests to the store.")));
}

/* The array in which a hash operation names its fields and finds their values. */
static ZarisField *
make_fields(const ReadState *state)
{
	const ZarisFetch *fetch = state->fetch;
	ZarisField *fields = zaris_batch_alloc(state->guard->batch, fetch->n_fields * sizeof(ZarisField));

	if (fields == NULL)
		raise_out_of_memory();
	for (int i = 0; i < fetch->n_fields; i++)
		fields[i] = (ZarisField) {.name = fetch->field_names[i]};
	return fields;
}

static void
submit_get(ReadState *state, StringInfo key)
{
	ZarisOperation *operation = zaris_batch_operation(state->guard->batch);
	char	   *data;

	if (operation == NULL)
		raise_out_of_memory();
	data = MemoryContextAlloc(state->work_context, Max(key->len, 1));
	memcpy(data, key->data, key->len);
	operation->kind = ZARIS_OP_GET;
	operation->record = state->table->record;
	operation->key = (ZarisBytes) {data, key->len};
	operation->want = state->fetch->want;
	if (state->fetch->n_fields > 0)
	{
		operation->fields = make_fields(state);
		operation->n_fields = state->fetch->n_fields;
	}
	state->operations[state->n_operations++] = operation;
	zaris_batch_submit(state->guard->batch, operation);
}

/* Ask for the next keys and wait for their answers. False: there are no more keys. */
static bool
fetch_batch(ReadState *state)
{
	StringInfoData key;
	ZarisClientStats before = stats_before(state);

	if (state->guard == NULL)
		state->guard = zaris_guard_batch(state->session, state->estate->es_query_cxt);
	else
		zaris_batch_reset(state->guard->batch);
	MemoryContextReset(state->work_context);
	state->n_operations = 0;
	state->at = 0;

	initStringInfo(&key);
	while (state->n_operations < state->batch_limit && zaris_lookup_next(state->lookup, &key))
		submit_get(state, &key);
	pfree(key.data);
	if (state->n_operations == 0)
		return false;

	zaris_wait_batch(state->guard);
	count_since(state, &before);
	state->batch_limit = Min(state->batch_limit * 2, state->table->batch_size);
	return true;
}

static bool
next_of_gets(ReadState *state, ZarisRecord *record)
{
	for (;;)
	{
		const ZarisOperation *operation;

		if (state->at == state->n_operations && !fetch_batch(state))
			return false;
		operation = state->operations[state->at++];
		if (operation->status == ZARIS_NOT_FOUND)
			continue;
		if (operation->status == ZARIS_WRONG_TYPE)
		{
			state->counts.skipped++;
			continue;			/* a key of another kind is no row */
		}
		if (operation->status != ZARIS_OK)
			zaris_raise_operation(state->session, operation, state->table->name);
		*record = (ZarisRecord) {
			.key = operation->key,
			.value = operation->result,
			.fields = operation->fields,
			.n_fields = operation->n_fields,
			.version = operation->version,
			.has_version = operation->has_version,
			.expiry_ms = operation->expiry_ms,
		};
		return true;
	}
}

/* Scan */

/* False: no key can match, and nothing is asked. */
static bool
begin_scan(ReadState *state)
{
	MemoryContext caller = MemoryContextSwitchTo(state->work_context);
	ZarisScanRequest request = {
		.record = state->table->record,
		.want = state->fetch->want,
		.fields = state->fetch->field_names,
		.n_fields = state->fetch->n_fields,
		.page_size = state->table->fetch_size,
		.row_hint = state->row_hint,
	};
	StringInfoData prefix;
	bool		possible;

	initStringInfo(&prefix);
	possible = zaris_lookup_prefix(state->lookup, &prefix);
	request.prefix = (ZarisBytes) {prefix.data, prefix.len};
	if (possible)
		state->guard = zaris_guard_scan(state->session, state->work_context, &request);
	MemoryContextSwitchTo(caller);
	return possible;
}

static bool
next_of_scan(ReadState *state, ZarisRecord *record)
{
	ZarisClientStats before = stats_before(state);
	ZarisScanStep step = zaris_wait_scan(state->guard, record);

	count_since(state, &before);
	if (step == ZARIS_SCAN_FAILED)
		zaris_raise_scan(state->guard, state->table->name);
	return step == ZARIS_SCAN_ROW;
}

/* Back to idle. What was asked for ahead is dropped when it comes. */
static void
stop(ReadState *state)
{
	if (state->operation == ZARIS_SCAN_SCAN && state->guard != NULL)
	{
		state->counts.skipped += dropped_keys(state);
		zaris_guard_free(state->guard);
		state->guard = NULL;
		MemoryContextReset(state->work_context);
	}
	state->at = state->n_operations = 0;
	state->running = state->finished = false;
}

static void
start(ForeignScanState *node, ReadState *state)
{
	if (state->session == NULL)
		state->session = zaris_options_session(state->table->serverid, state->userid);
	zaris_lookup_evaluate(state->lookup, node->ss.ps.ps_ExprContext);
	state->running = true;
	if (state->operation == ZARIS_SCAN_SCAN)
		state->finished = !begin_scan(state);
	else
		state->batch_limit = state->row_hint > 0 ? Min(state->row_hint, state->table->batch_size) :
			state->table->batch_size;
}

static bool
next_record(ReadState *state, ZarisRecord *record)
{
	bool		found;

	if (state->finished)
		return false;
	found = state->operation == ZARIS_SCAN_GET ? next_of_gets(state, record) : next_of_scan(state, record);
	if (!found)
	{
		stop(state);
		state->running = state->finished = true;
	}
	return found;
}

/* callbacks */

void
zaris_begin_foreign_scan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *private = plan->fdw_private;
	ReadState  *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(*state));
	node->fdw_state = state;
	state->estate = node->ss.ps.state;
	state->table = zaris_table_open(node->ss.ss_currentRelation);
	state->operation = (ZarisScanOperation) intVal(list_nth(private, ZARIS_PRIVATE_OPERATION));
	state->lookup = zaris_lookup_create(state->table, private, plan->fdw_exprs, (PlanState *) node);
	state->fetch = zaris_fetch_create(state->table, list_nth(private, ZARIS_PRIVATE_COLUMNS),
									  boolVal(list_nth(private, ZARIS_PRIVATE_HEADER)));
	state->row_hint = intVal(list_nth(private, ZARIS_PRIVATE_ROW_HINT));
	state->userid = ForeignScanCheckAsUser(plan, state->estate);
	if (!OidIsValid(state->userid))
		state->userid = GetUserId();
	state->counting = state->estate->es_instrument != 0;	/* the node's own is made later */
	if (state->operation == ZARIS_SCAN_GET)
		state->operations = palloc(state->table->batch_size * sizeof(ZarisOperation *));
	state->work_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw scan", ALLOCSET_DEFAULT_SIZES);
	state->row_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw row", ALLOCSET_DEFAULT_SIZES);
}

TupleTableSlot *
zaris_iterate_foreign_scan(ForeignScanState *node)
{
	ReadState  *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ZarisRecord record;

	ExecClearTuple(slot);
	if (!state->running)
		start(node, state);
	while (next_record(state, &record))
	{
		MemoryContext caller;
		bool		stored;

		/* what this very statement has created is none of the rows that it reads (written.h) */
		if (zaris_written_created(state->estate, state->table->serverid, record.key))
			continue;
		MemoryContextReset(state->row_context);
		caller = MemoryContextSwitchTo(state->row_context);
		stored = zaris_fetch_store(state->fetch, &record, slot);
		MemoryContextSwitchTo(caller);
		if (stored)
			break;
		state->counts.skipped++;
	}
	return slot;
}

void
zaris_rescan_foreign_scan(ForeignScanState *node)
{
	if (node->fdw_state != NULL)
		stop(node->fdw_state);
}

void
zaris_end_foreign_scan(ForeignScanState *node)
{
	ReadState  *state = node->fdw_state;

	if (state == NULL)
		return;
	stop(state);
	if (state->guard != NULL)
		zaris_guard_free(state->guard);
	state->guard = NULL;
}

/* The quals that the keys imply are in fdw_recheck_quals, which PostgreSQL checks itself. */
bool
zaris_recheck_foreign_scan(ForeignScanState *node, TupleTableSlot *slot)
{
	return true;
}

ZarisScanCounts
zaris_scan_counts(const ForeignScanState *node)
{
	const ReadState *state = node->fdw_state;
	ZarisScanCounts counts = {0};

	if (state == NULL)
		return counts;
	counts = state->counts;
	counts.skipped += dropped_keys(state);
	return counts;
}
