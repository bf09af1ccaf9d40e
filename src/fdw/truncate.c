/*
 * truncate.c
 *	  TRUNCATE: every record of the table is deleted, found by a scan that is complete or fails (I11).
 *
 * Only what is a row of the table goes: keys that parse (I12), records of the table's kind.  A record that somebody
 * else deletes or replaces by another kind meanwhile is none any more.  As everything that is written immediately, what
 * was deleted before an error stays deleted.
 */
#include "postgres.h"

#include "access/table.h"
#include "backend/compat.h"
#include "backend/error.h"
#include "backend/wait.h"
#include "fdw/modify.h"
#include "fdw/writer.h"
#include "utils/rel.h"

static void
delete_record(ZarisWriter *writer, ZarisBytes key, Datum *values)
{
	MemoryContext caller;
	ZarisOperation *delete;
	char *copy;

	zaris_writer_row(writer);
	caller = MemoryContextSwitchTo(writer->context);
	if (zaris_key_parse(writer->table, key, values))
	{
		/* the scan uses its memory again */
		copy = palloc(key.len + 1);
		memcpy(copy, key.data, key.len);
		delete = zaris_writer_operation(writer, ZARIS_OP_DELETE, (ZarisBytes){copy, key.len}, false);
		delete->precondition = ZARIS_IF_PRESENT;
		zaris_writer_send(writer, delete, ZARIS_TOLERATE(ZARIS_NOT_FOUND) | ZARIS_TOLERATE(ZARIS_WRONG_TYPE), NULL);
	}
	MemoryContextSwitchTo(caller);
}

static void
delete_all(ZarisWriter *writer)
{
	const ZarisTable *table = writer->table;
	ZarisScanRequest  request = {.prefix = zaris_table_prefix(table), .record = table->record, .page_size = table->fetch_size};
	ZarisGuard		 *guard = zaris_guard_scan(writer->session, CurrentMemoryContext, &request);
	Datum			 *values = palloc0(table->n_columns * sizeof(Datum));
	ZarisRecord		  record;
	ZarisScanStep	  step;

	while ((step = zaris_wait_scan(guard, &record)) == ZARIS_SCAN_ROW)
		delete_record(writer, record.key, values);
	if (step == ZARIS_SCAN_FAILED)
		zaris_raise_scan(guard, table->name);
	zaris_guard_free(guard);
}

static void
truncate_table(Relation relation)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw truncate", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	ZarisWriter	 *writer = zaris_writer_open(NULL, relation, InvalidOid);

	delete_all(writer);
	zaris_writer_close(writer);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

void
zaris_exec_foreign_truncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ListCell *cell;

	/* before the first key of any of them is deleted */
	foreach (cell, rels)
	{
		Relation relation = lfirst(cell);

		if (zaris_is_foreign_rel_updatable(relation) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("foreign table \"%s\" does not allow truncates", RelationGetRelationName(relation)),
					 errdetail("Its option \"read_only\" is set.")));
	}
	foreach (cell, rels)
		truncate_table(lfirst(cell));
}
