/*
 * scan.c
 *	  Execution of reads: PostgreSQL's callbacks.
 *
 * A node is in one of these states:
 *
 *		idle		nothing evaluated, nothing sent: after Begin and after each ReScan
 *		running		keys or prefix are known; work hangs on guards
 *		finished	no more rows; a scan's guard is freed
 *
 * Gets keep their batches through rescans, since a nested loop's inner side makes thousands of them.  A Scan gets a
 * new guard each time.
 */
#include "postgres.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "backend/session.h"
#include "backend/wait.h"
#include "fdw/fetch.h"
#include "fdw/gets.h"
#include "fdw/lookup.h"
#include "fdw/options.h"
#include "fdw/plan.h"
#include "fdw/scan.h"
#include "fdw/table.h"
#include "fdw/written.h"

typedef struct ReadState
{
	EState		 *estate;
	ZarisTable	 *table;
	ZarisLookup	 *lookup;
	ZarisFetch	 *fetch;
	int			  row_hint;
	Oid			  userid;
	ZarisSession *session; /* found with the first row */
	bool		  running;
	bool		  finished;
	ZarisGets	 *gets;			/* Get */
	ZarisGuard	 *guard;		/* Scan; NULL = none yet */
	MemoryContext scan_context; /* its guard and prefix */
	MemoryContext row_context;	/* what the present row points to */

	bool			counting; /* EXPLAIN ANALYZE */
	ZarisScanCounts counts;
} ReadState;

/* counts */

/* The client works for several nodes, so what a node caused is what changed while it was waiting. */
static ZarisClientStats
stats_before(const ReadState *state)
{
	if (!state->counting)
		return (ZarisClientStats){0};
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

/* Scan */

/* False: no key can match, and nothing is asked. */
static bool
begin_scan(ReadState *state)
{
	MemoryContext	 caller = MemoryContextSwitchTo(state->scan_context);
	ZarisScanRequest request = {
		.record = state->table->record,
		.want = state->fetch->want,
		.fields = state->fetch->field_names,
		.n_fields = state->fetch->n_fields,
		.page_size = state->table->fetch_size,
		.row_hint = state->row_hint,
	};
	StringInfoData prefix;
	bool		   possible;

	initStringInfo(&prefix);
	possible = zaris_lookup_prefix(state->lookup, &prefix);
	request.prefix = (ZarisBytes){prefix.data, prefix.len};
	if (possible)
		state->guard = zaris_guard_scan(state->session, state->scan_context, &request);
	MemoryContextSwitchTo(caller);
	return possible;
}

/* Back to idle. What was asked for ahead is dropped when it comes. */
static void
stop(ReadState *state)
{
	if (state->gets != NULL)
		zaris_gets_stop(state->gets);
	if (state->guard != NULL)
	{
		state->counts.skipped += dropped_keys(state);
		zaris_guard_free(state->guard);
		state->guard = NULL;
		MemoryContextReset(state->scan_context);
	}
	state->running = state->finished = false;
}

static void
start(ForeignScanState *node, ReadState *state)
{
	if (state->session == NULL)
		state->session = zaris_options_session(state->table->serverid, state->userid);
	zaris_lookup_evaluate(state->lookup, node->ss.ps.ps_ExprContext);
	state->running = true;
	if (state->gets != NULL)
		zaris_gets_start(state->gets, state->session, state->row_hint);
	else
		state->finished = !begin_scan(state);
}

static bool
fetch_record(ReadState *state, ZarisRecord *record)
{
	ZarisScanStep step;

	if (state->gets != NULL)
		return zaris_gets_next(state->gets, record);
	step = zaris_wait_scan(state->guard, record);
	if (step == ZARIS_SCAN_FAILED)
		zaris_raise_scan(state->guard, state->table->name);
	return step == ZARIS_SCAN_ROW;
}

static bool
next_record(ReadState *state, ZarisRecord *record)
{
	ZarisClientStats before;
	bool			 found;

	if (state->finished)
		return false;
	before = stats_before(state);
	found = fetch_record(state, record);
	count_since(state, &before);
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
	List *private = plan->fdw_private;
	ReadState *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(*state));
	node->fdw_state = state;
	state->estate = node->ss.ps.state;
	state->table = zaris_table_open(node->ss.ss_currentRelation);
	state->lookup = zaris_lookup_create(state->table, private, plan->fdw_exprs, (PlanState *) node);
	state->fetch = zaris_fetch_create(state->table, list_nth(private, ZARIS_PRIVATE_COLUMNS),
									  boolVal(list_nth(private, ZARIS_PRIVATE_HEADER)));
	state->row_hint = intVal(list_nth(private, ZARIS_PRIVATE_ROW_HINT));
	state->userid = ForeignScanCheckAsUser(plan, state->estate);
	if (!OidIsValid(state->userid))
		state->userid = GetUserId();
	state->counting = state->estate->es_instrument != 0; /* the node's own is made later */
	if (intVal(list_nth(private, ZARIS_PRIVATE_OPERATION)) != ZARIS_SCAN_SCAN)
		state->gets = zaris_gets_create(state->table, state->fetch, state->lookup);
	state->scan_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw scan", ALLOCSET_DEFAULT_SIZES);
	state->row_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw row", ALLOCSET_DEFAULT_SIZES);
}

TupleTableSlot *
zaris_iterate_foreign_scan(ForeignScanState *node)
{
	ReadState	   *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ZarisRecord		record;

	ExecClearTuple(slot);
	if (!state->running)
		start(node, state);
	while (next_record(state, &record))
	{
		MemoryContext caller;
		bool		  stored;

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
	ReadState *state = node->fdw_state;

	if (state == NULL)
		return;
	stop(state);
	if (state->gets != NULL)
		zaris_gets_free(state->gets);
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
	ZarisScanCounts	 counts = {0};

	if (state == NULL)
		return counts;
	counts = state->counts;
	counts.skipped += dropped_keys(state) + (state->gets != NULL ? zaris_gets_skipped(state->gets) : 0);
	return counts;
}
