/*
 * writer.c
 *	  The pipeline of a table's writes: see writer.h.
 *
 * Operations are composed when they are submitted and leave with the next turn of the loop, so a turn is taken every
 * FLUSH_EVERY rows: the store works on those while this backend makes the next.  At a full batch everything is waited
 * for, judged, and the memory is used again; by then all but the last few answers have come.
 */
#include "postgres.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "backend/wait.h"
#include "fdw/move.h"
#include "fdw/options.h"
#include "fdw/row.h"
#include "fdw/writer.h"
#include "utils/memutils.h"

#define FLUSH_EVERY 64							/* operations composed before they are sent */
#define MOST_BYTES	((size_t) 16 * 1024 * 1024) /* in flight; one record may be larger */

/* What the writer remembers of an operation: its `user`. */
typedef struct Write
{
	ZarisFingerprint  key;
	unsigned		  tolerated;
	ZarisWriteResult *result;
} Write;

ZarisWriter *
zaris_writer_open(EState *estate, Relation relation, Oid userid)
{
	ZarisWriter *writer = palloc0(sizeof(*writer));

	writer->relation = relation;
	writer->table = zaris_table_open(relation);
	writer->session = zaris_options_session(writer->table->serverid, OidIsValid(userid) ? userid : GetUserId());
	writer->written = zaris_written_open(estate, writer->table->serverid);
	writer->context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw writes", ALLOCSET_DEFAULT_SIZES);
	writer->operations = palloc(writer->table->batch_size * sizeof(ZarisOperation *));
	writer->guard = zaris_guard_batch(writer->session, CurrentMemoryContext);
	return writer;
}

/* Everything is judged: its memory may be used again. */
static void
forget_all(ZarisWriter *writer)
{
	Assert(writer->n_judged == writer->n_operations && writer->n_moves == 0);
	zaris_batch_reset(writer->guard->batch);
	MemoryContextReset(writer->context);
	writer->moves = NULL;
	writer->n_operations = 0;
	writer->n_judged = 0;
	writer->bytes = 0;
}

static bool
is_full(const ZarisWriter *writer)
{
	return writer->n_operations >= writer->table->batch_size || writer->bytes >= MOST_BYTES;
}

void
zaris_writer_row(ZarisWriter *writer)
{
	if (is_full(writer) || zaris_move_is_full(writer))
		zaris_writer_drain(writer);
	if (writer->n_judged == writer->n_operations && writer->n_moves == 0)
		forget_all(writer);
}

ZarisOperation *
zaris_writer_bare_operation(ZarisWriter *writer, ZarisOperationKind kind, ZarisBytes key)
{
	ZarisOperation *operation = zaris_batch_operation(writer->guard->batch);

	if (operation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	operation->kind = kind;
	operation->record = writer->table->record;
	operation->key = key;
	return operation;
}

bool
zaris_writer_has_written(ZarisWriter *writer, ZarisBytes key)
{
	return zaris_written_has(writer->written, zaris_written_fingerprint(key));
}

/*
 * Two writes of one key must not overtake each other, and a redirect or a retry of the first would let them: so the
 * first is waited for, whichever table of the statement it came through.
 */
ZarisOperation *
zaris_writer_operation(ZarisWriter *writer, ZarisOperationKind kind, ZarisBytes key, bool creates)
{
	Write		   *write = MemoryContextAllocZero(writer->context, sizeof(*write));
	ZarisOperation *operation;
	ZarisWriter	   *other;

	write->key = zaris_written_fingerprint(key);
	other = zaris_written_writer(writer->written, write->key);
	if (other != NULL)
		zaris_writer_drain(other);
	operation = zaris_writer_bare_operation(writer, kind, key);
	operation->user = write;
	zaris_written_begin(writer->written, write->key, writer, creates);
	return operation;
}

static size_t
request_bytes(const ZarisOperation *operation)
{
	size_t bytes = operation->key.len + operation->value.len;

	for (int i = 0; i < operation->n_fields; i++)
		bytes += operation->fields[i].name.len + operation->fields[i].value.len;
	return bytes;
}

void
zaris_writer_send(ZarisWriter *writer, ZarisOperation *operation, unsigned tolerated, ZarisWriteResult *result)
{
	Write *write = operation->user;

	write->tolerated = tolerated;
	write->result = result;
	Assert(writer->n_operations < writer->table->batch_size);
	writer->bytes += request_bytes(operation);
	writer->operations[writer->n_operations++] = operation;
	zaris_batch_submit(writer->guard->batch, operation);
	if (writer->n_operations % FLUSH_EVERY == 0)
		zaris_wait_poll(writer->guard);
}

void
zaris_writer_count(ZarisWriter *writer, const ZarisOperation *operation)
{
	writer->writes++;
	writer->attempts += operation->attempts + operation->hops;
	if (operation->status == ZARIS_OK)
		writer->applied++;
}

void
zaris_writer_raise_duplicate(ZarisWriter *writer, ZarisBytes key)
{
	const ZarisTable *table = writer->table;
	Datum			 *values = palloc0(table->n_columns * sizeof(Datum));
	StringInfoData	  names;
	StringInfoData	  texts;

	initStringInfo(&names);
	initStringInfo(&texts);
	if (zaris_key_parse(table, key, values))
	{
		for (int i = 0; i < table->n_key_columns; i++)
		{
			ZarisColumn *column = table->key_columns[i];

			appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", column->name);
			appendStringInfo(&texts, "%s%s", i > 0 ? ", " : "",
							 OutputFunctionCall(zaris_column_output(column), values[column->attnum - 1]));
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s_pkey\"", table->name),
			 errdetail("Key (%s)=(%s) already exists.", names.data, texts.data),
			 errtableconstraint(writer->relation, psprintf("%s_pkey", table->name))));
}

/* A change that only removes fields was refused: nothing would have been left. */
static bool
would_empty(const ZarisOperation *operation)
{
	if (operation->status != ZARIS_INVALID_REQUEST || operation->kind != ZARIS_OP_PUT || operation->n_fields == 0)
		return false;
	for (int i = 0; i < operation->n_fields; i++)
	{
		if (operation->fields[i].value.data != NULL)
			return false;
	}
	return true;
}

static void
judge(ZarisWriter *writer, ZarisOperation *operation)
{
	const Write		 *write = operation->user;
	ZarisWriteResult *result = write->result;

	zaris_written_end(writer->written, write->key);
	zaris_writer_count(writer, operation);
	if (operation->status == ZARIS_OK)
	{
		if (result == NULL)
			return;
		result->applied = true;
		result->has_version = operation->kind == ZARIS_OP_PUT && operation->has_version;
		result->version = operation->version;
		return;
	}
	if (write->tolerated & ZARIS_TOLERATE(operation->status))
		return;
	if (operation->status == ZARIS_CONFLICT && operation->kind == ZARIS_OP_PUT &&
		operation->precondition == ZARIS_IF_ABSENT)
		zaris_writer_raise_duplicate(writer, operation->key);
	if (would_empty(operation))
		zaris_row_raise_empty(writer->table);
	zaris_raise_operation(writer->session, operation, writer->table->name);
}

void
zaris_writer_wait(ZarisWriter *writer)
{
	writer->waits++;
	zaris_wait_batch(writer->guard);
}

/* The answers' memory stays until the next row: what a row points to may have been made before this. */
void
zaris_writer_drain(ZarisWriter *writer)
{
	if (writer->n_judged < writer->n_operations)
	{
		zaris_writer_wait(writer);
		while (writer->n_judged < writer->n_operations)
			judge(writer, writer->operations[writer->n_judged++]);
	}
	if (writer->n_moves > 0)
		zaris_move_all(writer);
}

void
zaris_writer_close(ZarisWriter *writer)
{
	zaris_writer_drain(writer);
	zaris_guard_free(writer->guard);
	MemoryContextDelete(writer->context);
	writer->context = NULL;
}
