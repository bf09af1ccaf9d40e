/*
 * modify.c
 *	  PostgreSQL's callbacks for INSERT, UPDATE, DELETE, COPY and tuple routing: see modify.h.
 *
 * When a row is waited for.  Nobody looks at the single result of most statements, and then rows only go into the
 * writer's pipeline.  Each row is waited for when somebody does look: RETURNING and WITH CHECK OPTION need what was
 * stored, triggers of the table may read it or must only fire for what was written, and ON CONFLICT DO NOTHING must
 * know what to count.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "backend/compat.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fdw/codec.h"
#include "fdw/modify.h"
#include "fdw/move.h"
#include "fdw/options.h"
#include "fdw/row.h"
#include "fdw/writer.h"
#include "nodes/makefuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/inherit.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/datum.h"
#include "utils/rel.h"

#define VERSION_HIGH "zaris_version_high" /* resjunk columns */
#define VERSION_LOW	 "zaris_version_low"
#define WHOLE_ROW	 "wholerow" /* PostgreSQL's own name for it */

/* The list that goes from planning to execution. */
enum ModifyPrivate
{
	MODIFY_PRIVATE_DO_NOTHING, /* Boolean: ON CONFLICT DO NOTHING */
	MODIFY_PRIVATE_MOVES,	   /* Boolean: an UPDATE that names key columns */
	MODIFY_PRIVATE_LENGTH
};

/* One result relation of a running statement: its ri_FdwState. */
typedef struct ModifyState
{
	ModifyTableState *mtstate;
	CmdType			  operation; /* of the statement; an UPDATE's may also get rows routed in */
	ZarisWriter		 *writer;
	bool			  do_nothing;
	int64			  ttl_ms; /* of new records; 0 = none */

	/* decided at the first row, when the executor has set up everything else */
	bool	   is_decided;
	bool	   row_by_row;
	Bitmapset *changed; /* columns that an UPDATE may change, NULL = all */
	bool	   may_move;

	/* positions in the subplan's rows: UPDATE and DELETE */
	AttrNumber *key_junk; /* by key column index */
	AttrNumber	high_junk;
	AttrNumber	low_junk;
} ModifyState;

/* planning */

/*
 * The name of a key column's resjunk column.  Tables of one inheritance tree may have different keys, and the planner
 * wants one name to mean one Var.
 */
static char *
key_junk_name(const ZarisColumn *column)
{
	return psprintf("zaris_key_%d_%u_%d_%u", column->attnum, column->type, column->typmod, column->collation);
}

static void
add_junk(PlannerInfo *root, Index rtindex, AttrNumber attnum, Oid type, int32 typmod, Oid collation, const char *name)
{
	Var *var = makeVar(rtindex, attnum, type, typmod, collation, 0);

	add_row_identity_var(root, var, rtindex, name);
}

void
zaris_add_foreign_update_targets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte, Relation target_relation)
{
	ZarisTable *table = zaris_table_open(target_relation);
	TupleDesc	descriptor = RelationGetDescr(target_relation);

	for (int i = 0; i < table->n_key_columns; i++)
	{
		const ZarisColumn *column = table->key_columns[i];
		Form_pg_attribute  attribute = TupleDescAttr(descriptor, column->attnum - 1);

		add_junk(root, rtindex, column->attnum, attribute->atttypid, attribute->atttypmod, attribute->attcollation,
				 key_junk_name(column));
	}
	add_junk(root, rtindex, MinTransactionIdAttributeNumber, XIDOID, -1, InvalidOid, VERSION_HIGH);
	add_junk(root, rtindex, MaxTransactionIdAttributeNumber, XIDOID, -1, InvalidOid, VERSION_LOW);

	/* an UPDATE always gets the old row from PostgreSQL; what a DELETE returns must be asked for */
	if (root->parse->commandType == CMD_DELETE && root->parse->returningList != NIL)
		add_junk(root, rtindex, InvalidAttrNumber, RECORDOID, -1, InvalidOid, WHOLE_ROW);
}

static const char *
command_noun(CmdType operation)
{
	if (operation == CMD_INSERT)
		return "inserts";
	return operation == CMD_UPDATE ? "updates" : "deletes";
}

static void
require_writable(const ZarisTable *table, CmdType operation)
{
	if (!table->read_only)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("foreign table \"%s\" does not allow %s", table->name, command_noun(operation)),
			 errdetail("Its option \"read_only\" is set.")));
}

#define VERSION_DETAIL "It shows the version that the store gives a record."

static void
refuse_version_update(const ZarisColumn *version)
{
	ereport(ERROR,
			(errcode(ERRCODE_GENERATED_ALWAYS),
			 errmsg("column \"%s\" cannot be updated", version->name),
			 errdetail(VERSION_DETAIL),
			 errhint("Compare it in WHERE to update only what was not changed since.")));
}

static void
refuse_version_insert(const ZarisColumn *version)
{
	ereport(ERROR,
			(errcode(ERRCODE_GENERATED_ALWAYS),
			 errmsg("cannot insert a value other than NULL into column \"%s\"", version->name),
			 errdetail(VERSION_DETAIL)));
}

/* Which columns an UPDATE sets, as attribute numbers minus FirstLowInvalidHeapAttributeNumber. */
static bool
sets_column(const Bitmapset *columns, const ZarisColumn *column)
{
	return column != NULL && bms_is_member(column->attnum - FirstLowInvalidHeapAttributeNumber, columns);
}

static bool
sets_key(const ZarisTable *table, const Bitmapset *columns)
{
	for (int i = 0; i < table->n_key_columns; i++)
	{
		if (sets_column(columns, table->key_columns[i]))
			return true;
	}
	return false;
}

static void
require_no_update_clause(OnConflictAction action)
{
	if (action == ONCONFLICT_UPDATE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ON CONFLICT DO UPDATE is not supported on foreign tables")));
}

List *
zaris_plan_foreign_modify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index)
{
	RangeTblEntry *rte = planner_rt_fetch(resultRelation, root);
	Relation	   relation = table_open(rte->relid, NoLock);
	ZarisTable	  *table = zaris_table_open(relation);
	bool		   moves = false;

	require_writable(table, plan->operation);
	require_no_update_clause(plan->onConflictAction);
	if (plan->operation == CMD_UPDATE)
	{
		Bitmapset *columns = get_rel_all_updated_cols(root, find_base_rel(root, resultRelation));

		if (sets_column(columns, table->version))
			refuse_version_update(table->version);
		moves = sets_key(table, columns);
	}
	table_close(relation, NoLock);

	/* in the order of ModifyPrivate */
	return list_make2(makeBoolean(plan->onConflictAction == ONCONFLICT_NOTHING), makeBoolean(moves));
}

int
zaris_is_foreign_rel_updatable(Relation rel)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));

	if (zaris_option_boolean(table->options, "read_only", false))
		return 0;
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}

/* beginning */

/* Whether the statement reads any other table of the server, so that it might meet what it inserts. */
static bool
reads_from_server(EState *estate, const ResultRelInfo *rinfo, Oid serverid)
{
	ListCell *cell;

	foreach (cell, estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		if (foreach_current_index(cell) + 1 == rinfo->ri_RangeTableIndex || rte->rtekind != RTE_RELATION ||
			rte->relkind != RELKIND_FOREIGN_TABLE)
			continue;
		if (GetForeignServerIdByRelId(rte->relid) == serverid)
			return true;
	}
	return false;
}

static ModifyState *
create_state(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	EState		 *estate = mtstate->ps.state;
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	ModifyState	 *state = palloc0(sizeof(*state));
	ForeignTable *foreign = GetForeignTable(RelationGetRelid(rinfo->ri_RelationDesc));

	state->mtstate = mtstate;
	state->operation = mtstate->operation;
	state->ttl_ms = zaris_option_duration_ms(foreign->options, "ttl", 0);
	state->writer = zaris_writer_open(estate, rinfo->ri_RelationDesc, ExecGetResultRelCheckAsUser(rinfo, estate));
	if (state->operation != CMD_INSERT || reads_from_server(estate, rinfo, foreign->serverid))
		zaris_written_remember(state->writer->written);
	rinfo->ri_FdwState = state;
	MemoryContextSwitchTo(caller);
	return state;
}

static AttrNumber
find_junk(List *targetlist, const char *name)
{
	AttrNumber attnum = ExecFindJunkAttributeInTlist(targetlist, name);

	if (!AttributeNumberIsValid(attnum))
		elog(ERROR, "could not find junk column \"%s\"", name);
	return attnum;
}

void
zaris_begin_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, int subplan_index,
						   int eflags)
{
	ModifyState		 *state;
	const ZarisTable *table;
	List			 *targetlist;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = create_state(mtstate, rinfo);
	state->do_nothing = boolVal(list_nth(fdw_private, MODIFY_PRIVATE_DO_NOTHING));
	if (state->operation == CMD_INSERT)
		return;
	table = state->writer->table;
	targetlist = outerPlanState(mtstate)->plan->targetlist;
	state->key_junk = MemoryContextAlloc(mtstate->ps.state->es_query_cxt, table->n_key_columns * sizeof(AttrNumber));
	for (int i = 0; i < table->n_key_columns; i++)
		state->key_junk[i] = find_junk(targetlist, key_junk_name(table->key_columns[i]));
	state->high_junk = find_junk(targetlist, VERSION_HIGH);
	state->low_junk = find_junk(targetlist, VERSION_LOW);
}

/* For COPY and for rows that a partitioned table routes here. */
void
zaris_begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	ModifyTable *plan = (ModifyTable *) mtstate->ps.plan;
	ModifyState *state = rinfo->ri_FdwState;

	if (plan != NULL)
		require_no_update_clause(plan->onConflictAction);

	/* a partition that an UPDATE reads and moves rows into: one writer serves both */
	if (state == NULL)
		state = create_state(mtstate, rinfo);
	state->do_nothing = plan != NULL && plan->onConflictAction == ONCONFLICT_NOTHING;
}

/* Whether a trigger may see the table while the statement runs, or fires for each row. */
static bool
has_triggers(const TriggerDesc *triggers, CmdType operation)
{
	if (triggers == NULL)
		return false;
	switch (operation)
	{
		case CMD_INSERT:
			return triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
				   triggers->trig_insert_after_statement;
		case CMD_DELETE:
			return triggers->trig_delete_before_row || triggers->trig_delete_after_row ||
				   triggers->trig_delete_after_statement;
		default:
			return triggers->trig_update_before_row || triggers->trig_update_after_row ||
				   triggers->trig_update_after_statement;
	}
}

/* Whether somebody looks at each row's result, or at the table while the statement runs. */
static bool
is_looked_at(const ResultRelInfo *rinfo, CmdType operation)
{
	if (rinfo->ri_projectReturning != NULL || rinfo->ri_returningList != NIL || rinfo->ri_WithCheckOptions != NIL)
		return true;

	/* an UPDATE of a partitioned table may also move rows in */
	return has_triggers(rinfo->ri_TrigDesc, operation) ||
		   (operation == CMD_UPDATE && has_triggers(rinfo->ri_TrigDesc, CMD_INSERT));
}

static void
decide(ModifyState *state, EState *estate, ResultRelInfo *rinfo)
{
	const ResultRelInfo *root = state->mtstate->rootResultRelInfo;

	state->is_decided = true;
	state->row_by_row = is_looked_at(rinfo, state->operation) ||
						(root != NULL && root != rinfo && is_looked_at(root, state->operation)) ||
						state->mtstate->mt_transition_capture != NULL;
	if (state->operation != CMD_UPDATE || state->key_junk == NULL)
		return;
	if (rinfo->ri_TrigDesc == NULL || !rinfo->ri_TrigDesc->trig_update_before_row)
	{
		MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

		state->changed = bms_copy(ExecGetAllUpdatedCols(rinfo, estate));
		MemoryContextSwitchTo(caller);
	}

	/* a trigger may change what it likes */
	state->may_move = state->changed == NULL || sets_key(state->writer->table, state->changed);
}

static ModifyState *
state_for_row(EState *estate, ResultRelInfo *rinfo)
{
	ModifyState *state = rinfo->ri_FdwState;

	if (!state->is_decided)
		decide(state, estate, rinfo);
	zaris_writer_row(state->writer);
	return state;
}

/* rows */

/*
 * PostgreSQL leaves it to the wrapper to enforce a foreign table's NOT NULL and CHECK constraints, and the bounds of a
 * partition.  The store knows nothing of them, so it is done here.
 */
static void
check_constraints(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, bool is_routed)
{
	Relation relation = rinfo->ri_RelationDesc;

	if (RelationGetDescr(relation)->constr != NULL)
		ExecConstraints(rinfo, slot, estate);
	if (relation->rd_rel->relispartition && !is_routed)
		(void) ExecPartitionCheck(rinfo, slot, estate, true);
}

/*
 * Put what the store decided into the row: its version and expiry.  The slot's own tuple, if it has one, would hide
 * changed values, so the row is built anew (as ExecComputeStoredGenerated does).
 */
static void
complete_row(EState *estate, const ZarisTable *table, TupleTableSlot *slot, const ZarisWriteResult *result,
			 ZarisExpiryAction expiry, int64 expires_at_ms)
{
	TupleDesc	  descriptor = slot->tts_tupleDescriptor;
	MemoryContext caller;
	Datum		 *values;
	bool		 *nulls;

	if (table->version == NULL && table->expires_at == NULL)
		return;
	caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	values = palloc(descriptor->natts * sizeof(Datum));
	nulls = palloc(descriptor->natts * sizeof(bool));
	slot_getallattrs(slot);
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		nulls[i] = slot->tts_isnull[i];
		values[i] = nulls[i] ? (Datum) 0 : datumCopy(slot->tts_values[i], attribute->attbyval, attribute->attlen);
	}
	if (table->version != NULL)
	{
		values[table->version->attnum - 1] = Int64GetDatum(result->version);
		nulls[table->version->attnum - 1] = !result->has_version;
	}
	if (table->expires_at != NULL && expiry != ZARIS_EXPIRY_KEEP)
	{
		nulls[table->expires_at->attnum - 1] = expiry == ZARIS_EXPIRY_CLEAR;
		values[table->expires_at->attnum - 1] = expiry == ZARIS_EXPIRY_CLEAR ? (Datum) 0 : zaris_codec_expiry(expires_at_ms);
	}
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, descriptor->natts * sizeof(Datum));
	memcpy(slot->tts_isnull, nulls, descriptor->natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	ExecMaterializeSlot(slot);
	MemoryContextSwitchTo(caller);
}

static bool
is_null(const TupleTableSlot *slot, const ZarisColumn *column)
{
	return column == NULL || slot->tts_isnull[column->attnum - 1];
}

/* INSERT */

/* The row as a Put IfAbsent, sent. The operation is valid until the writer's next row. */
static ZarisOperation *
send_insert(ModifyState *state, EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, ZarisWriteResult *result)
{
	ZarisWriter		 *writer = state->writer;
	const ZarisTable *table = writer->table;
	MemoryContext	  caller = MemoryContextSwitchTo(writer->context);
	ZarisOperation	 *put;
	ZarisOperation	  request = {0};

	slot_getallattrs(slot);
	check_constraints(estate, rinfo, slot, rinfo->ri_RootResultRelInfo != NULL);
	if (!is_null(slot, table->version))
		refuse_version_insert(table->version);
	request.key = zaris_row_key(table, slot->tts_values, slot->tts_isnull);
	zaris_row_new_contents(table, slot, &request);
	if (!is_null(slot, table->expires_at))
	{
		request.expiry = ZARIS_EXPIRY_SET;
		request.expires_at_ms = zaris_row_expiry_ms(table->expires_at,
													slot->tts_values[table->expires_at->attnum - 1]);
	}
	else if (state->ttl_ms > 0)
	{
		request.expiry = ZARIS_EXPIRY_SET;
		request.expires_at_ms = zaris_row_expiry_after(state->ttl_ms);
	}

	/* only now, when nothing of the row can be refused any more */
	put = zaris_writer_operation(writer, ZARIS_OP_PUT, request.key, true);
	put->precondition = ZARIS_IF_ABSENT;
	put->value = request.value;
	put->fields = request.fields;
	put->n_fields = request.n_fields;
	put->expiry = request.expiry;
	put->expires_at_ms = request.expires_at_ms;
	zaris_writer_send(writer, put, state->do_nothing ? ZARIS_TOLERATE(ZARIS_CONFLICT) : 0, result);
	MemoryContextSwitchTo(caller);
	return put;
}

TupleTableSlot *
zaris_exec_foreign_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ModifyState		*state = state_for_row(estate, rinfo);
	ZarisWriteResult result = {0};
	ZarisOperation	*put;

	if (!state->row_by_row && !state->do_nothing)
	{
		(void) send_insert(state, estate, rinfo, slot, NULL);
		return slot;
	}
	put = send_insert(state, estate, rinfo, slot, &result);
	zaris_writer_drain(state->writer);
	if (!result.applied)
		return NULL;
	complete_row(estate, state->writer->table, slot, &result, put->expiry, put->expires_at_ms);
	return slot;
}

/*
 * The executor calls this only where nobody looks at single rows (see below).  What ON CONFLICT DO NOTHING skipped is
 * left out of the rows that are given back, so that they are counted rightly.
 */
TupleTableSlot **
zaris_exec_foreign_batch_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot **slots,
								TupleTableSlot **planSlots, int *numSlots)
{
	ModifyState		 *state = rinfo->ri_FdwState;
	ZarisWriteResult *results;
	TupleTableSlot	**inserted;
	int				  n = 0;

	if (!((ModifyState *) rinfo->ri_FdwState)->do_nothing)
	{
		for (int i = 0; i < *numSlots; i++)
			(void) zaris_exec_foreign_insert(estate, rinfo, slots[i], planSlots[i]);
		return slots;
	}
	results = palloc0(*numSlots * sizeof(ZarisWriteResult));
	inserted = palloc(*numSlots * sizeof(TupleTableSlot *));
	for (int i = 0; i < *numSlots; i++)
	{
		state = state_for_row(estate, rinfo);
		(void) send_insert(state, estate, rinfo, slots[i], &results[i]);
	}
	zaris_writer_drain(state->writer);
	for (int i = 0; i < *numSlots; i++)
	{
		if (results[i].applied)
			inserted[n++] = slots[i];
	}
	pfree(results);
	*numSlots = n;
	return inserted;
}

/*
 * How many rows the executor shall collect.  Only ON CONFLICT DO NOTHING gains by that, since its answers are counted;
 * all others are pipelined by the writer without a copy of each row.
 */
int
zaris_get_foreign_modify_batch_size(ResultRelInfo *rinfo)
{
	const ModifyState *state = rinfo->ri_FdwState;

	if (state == NULL || state->operation != CMD_INSERT || !state->do_nothing ||
		is_looked_at(rinfo, CMD_INSERT))
		return 1;
	return state->writer->table->batch_size;
}

/* UPDATE and DELETE */

/* The row's old key, from the resjunk columns. */
static ZarisBytes
old_key(const ModifyState *state, TupleTableSlot *planSlot)
{
	const ZarisTable *table = state->writer->table;
	Datum			 *values = palloc0(table->n_columns * sizeof(Datum));
	StringInfoData	  key;

	for (int i = 0; i < table->n_key_columns; i++)
	{
		bool is_null;

		values[table->key_columns[i]->attnum - 1] = ExecGetJunkAttribute(planSlot, state->key_junk[i], &is_null);
		if (is_null)
			elog(ERROR, "key column \"%s\" of the row is null", table->key_columns[i]->name);
	}
	initStringInfo(&key);
	zaris_key_format(table, values, NULL, &key);
	return (ZarisBytes){key.data, key.len};
}

static int64
old_version(const ModifyState *state, TupleTableSlot *planSlot)
{
	bool   no_high;
	bool   no_low;
	uint32 high = DatumGetTransactionId(ExecGetJunkAttribute(planSlot, state->high_junk, &no_high));
	uint32 low = DatumGetTransactionId(ExecGetJunkAttribute(planSlot, state->low_junk, &no_low));

	if (no_high || no_low)
		elog(ERROR, "version of the row is null");
	return (int64) ((uint64) high << 32 | low);
}

/* What becomes of the expiry: only an UPDATE that really changes it says anything. */
static ZarisExpiryAction
changed_expiry(const ModifyState *state, ResultRelInfo *rinfo, TupleTableSlot *slot, int64 *ms)
{
	const ZarisColumn *column = state->writer->table->expires_at;
	TupleTableSlot	  *old = rinfo->ri_oldTupleSlot;
	Datum			   value;
	Datum			   before;
	bool			   was_null;

	if (column == NULL || (state->changed != NULL && !sets_column(state->changed, column)))
		return ZARIS_EXPIRY_KEEP;
	before = slot_getattr(old, column->attnum, &was_null);
	if (is_null(slot, column))
		return was_null ? ZARIS_EXPIRY_KEEP : ZARIS_EXPIRY_CLEAR;
	value = slot->tts_values[column->attnum - 1];
	if (!was_null && DatumGetInt64(before) == DatumGetInt64(value))
		return ZARIS_EXPIRY_KEEP;
	*ms = zaris_row_expiry_ms(column, value);
	return ZARIS_EXPIRY_SET;
}

/* The row's key changes: the record moves. */
static void
send_move(ModifyState *state, TupleTableSlot *slot, ZarisMove *move)
{
	const ZarisTable *table = state->writer->table;

	if (table->layout == ZARIS_LAYOUT_HASH)
		move->n_fields = zaris_row_changed_fields(table, slot, state->changed, &move->fields);
	else if (state->changed == NULL || sets_column(state->changed, table->value))
	{
		move->has_value = true;
		move->value = zaris_row_string(table, slot);
	}
	zaris_move_add(state->writer, move);
}

/* The contents change: a Put of what changes, or of the same value when only the expiry does. */
static void
send_update(ModifyState *state, TupleTableSlot *slot, const ZarisMove *request)
{
	ZarisWriter		 *writer = state->writer;
	const ZarisTable *table = writer->table;
	ZarisBytes		  value = {NULL, 0};
	ZarisField		 *fields = NULL;
	int				  n_fields = 0;
	ZarisOperation	 *put;

	if (table->layout == ZARIS_LAYOUT_HASH)
		n_fields = zaris_row_changed_fields(table, slot, state->changed, &fields);
	else
		value = zaris_row_string(table, slot);
	put = zaris_writer_operation(writer, ZARIS_OP_PUT, request->old_key, false);
	put->precondition = ZARIS_IF_MATCH_VERSION;
	put->match_version = request->version;
	put->value = value;
	put->fields = fields;
	put->n_fields = n_fields;
	put->expiry = request->expiry;
	put->expires_at_ms = request->expires_at_ms;
	zaris_writer_send(writer, put, 0, request->result);
}

TupleTableSlot *
zaris_exec_foreign_update(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ModifyState		*state = state_for_row(estate, rinfo);
	ZarisWriter		*writer = state->writer;
	MemoryContext	 caller = MemoryContextSwitchTo(writer->context);
	ZarisWriteResult result = {0};
	ZarisMove		 move = {.old_key = old_key(state, planSlot)};

	/* PostgreSQL's rule for a row that the statement has updated already (a join found it twice), or made itself */
	if (zaris_writer_has_written(writer, move.old_key))
	{
		MemoryContextSwitchTo(caller);
		return NULL;
	}
	slot_getallattrs(slot);
	check_constraints(estate, rinfo, slot, false);
	move.version = old_version(state, planSlot);
	move.expiry = changed_expiry(state, rinfo, slot, &move.expires_at_ms);
	move.result = state->row_by_row ? &result : NULL;
	move.new_key = state->may_move ? zaris_row_key(writer->table, slot->tts_values, slot->tts_isnull) : move.old_key;
	if (move.new_key.len != move.old_key.len || memcmp(move.new_key.data, move.old_key.data, move.old_key.len) != 0)
		send_move(state, slot, &move);
	else
		send_update(state, slot, &move);
	MemoryContextSwitchTo(caller);
	if (!state->row_by_row)
		return slot;
	zaris_writer_drain(writer);
	complete_row(estate, writer->table, slot, &result, move.expiry, move.expires_at_ms);
	return slot;
}

/* The deleted row, for RETURNING. */
static void
fill_deleted_row(const ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	bool  is_null;
	Datum row;

	if (!AttributeNumberIsValid(rinfo->ri_RowIdAttNo))
		return;
	row = ExecGetJunkAttribute(planSlot, rinfo->ri_RowIdAttNo, &is_null);
	if (!is_null)
		ExecStoreHeapTupleDatum(row, slot);
}

TupleTableSlot *
zaris_exec_foreign_delete(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ModifyState	 *state = state_for_row(estate, rinfo);
	ZarisWriter	 *writer = state->writer;
	MemoryContext caller = MemoryContextSwitchTo(writer->context);
	ZarisBytes	  key = old_key(state, planSlot);
	bool		  is_written = zaris_writer_has_written(writer, key);

	if (!is_written)
	{
		ZarisOperation *delete = zaris_writer_operation(writer, ZARIS_OP_DELETE, key, false);

		delete->precondition = ZARIS_IF_MATCH_VERSION;
		delete->match_version = old_version(state, planSlot);
		zaris_writer_send(writer, delete, 0, NULL);
	}
	MemoryContextSwitchTo(caller);
	if (is_written)
		return NULL;
	if (!state->row_by_row)
		return slot;
	zaris_writer_drain(writer);
	fill_deleted_row(rinfo, slot, planSlot);
	return slot;
}

/* the end */

static void
end_state(ResultRelInfo *rinfo)
{
	ModifyState *state = rinfo->ri_FdwState;

	/* an EXPLAIN, or a partition that both ends are called for */
	if (state == NULL)
		return;
	zaris_writer_close(state->writer);
	rinfo->ri_FdwState = NULL;
}

void
zaris_end_foreign_modify(EState *estate, ResultRelInfo *rinfo)
{
	end_state(rinfo);
}

void
zaris_end_foreign_insert(EState *estate, ResultRelInfo *rinfo)
{
	end_state(rinfo);
}

/* EXPLAIN */

static const char *
describe_operation(CmdType operation, List *fdw_private)
{
	switch (operation)
	{
		case CMD_INSERT:
			return "Put IfAbsent";
		case CMD_UPDATE:
			if (boolVal(list_nth(fdw_private, MODIFY_PRIVATE_MOVES)))
				return "Get, Put IfAbsent, Delete IfMatchVersion";
			return "Put IfMatchVersion";
		default:
			return "Delete IfMatchVersion";
	}
}

void
zaris_modify_describe(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, bool analyze,
					  ZarisModifyDescription *description)
{
	ModifyState *state = rinfo->ri_FdwState;
	ZarisWriter *writer;
	bool		 looked_at = is_looked_at(rinfo, mtstate->operation) ||
					 (mtstate->rootResultRelInfo != NULL && is_looked_at(mtstate->rootResultRelInfo, mtstate->operation));

	memset(description, 0, sizeof(*description));
	description->operation = describe_operation(mtstate->operation, fdw_private);
	description->batch_size = looked_at ? 1 : zaris_table_open(rinfo->ri_RelationDesc)->batch_size;
	if (!analyze || state == NULL)
		return;
	writer = state->writer;
	zaris_writer_drain(writer);
	description->has_counts = true;
	description->writes = writer->writes;
	description->applied = writer->applied;
	description->attempts = writer->attempts;
	description->waits = writer->waits;
}
