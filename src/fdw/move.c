/*
 * move.c
 *	  Records that move to another key: see move.h for the stages.
 */
#include "postgres.h"

#include "backend/error.h"
#include "fdw/move.h"
#include "fdw/row.h"

#define MOST_MOVES	   128 /* whole records are read for a move, so these are kept few */
#define KEY_IN_MESSAGE 60  /* characters */

static const char *
show_key(ZarisBytes key)
{
	return zaris_printable(key.data, key.len, KEY_IN_MESSAGE);
}

bool
zaris_move_is_full(const ZarisWriter *writer)
{
	return writer->n_moves >= Min(MOST_MOVES, writer->table->batch_size);
}

/* Wait for whoever writes the key already (written.h, rule 1), then write it down. */
static ZarisFingerprint
claim_key(ZarisWriter *writer, ZarisBytes key, bool creates)
{
	ZarisFingerprint fingerprint = zaris_written_fingerprint(key);
	ZarisWriter		*other = zaris_written_writer(writer->written, fingerprint);

	if (other != NULL)
		zaris_writer_drain(other);
	zaris_written_begin(writer->written, fingerprint, writer, creates);
	return fingerprint;
}

void
zaris_move_add(ZarisWriter *writer, const ZarisMove *move)
{
	ZarisMove		*copy;
	ZarisFingerprint old_fingerprint = claim_key(writer, move->old_key, false);
	ZarisFingerprint new_fingerprint = claim_key(writer, move->new_key, true);

	if (writer->moves == NULL)
		writer->moves = MemoryContextAlloc(writer->context, MOST_MOVES * sizeof(ZarisMove));
	copy = &writer->moves[writer->n_moves++];
	*copy = *move;
	copy->old_fingerprint = old_fingerprint;
	copy->new_fingerprint = new_fingerprint;
	copy->get = copy->put = copy->delete = NULL;
}

/* stage 1 */

/* The record is not what the scan saw: say so as a Delete of that version would have, which need not be sent for it. */
static void
raise_changed(ZarisWriter *writer, const ZarisMove *move)
{
	ZarisOperation gone = *move->get;

	gone.kind = ZARIS_OP_DELETE;
	gone.precondition = ZARIS_IF_MATCH_VERSION;
	gone.match_version = move->version;
	gone.status = gone.last_status = ZARIS_CONFLICT;
	zaris_raise_operation(writer->session, &gone, writer->table->name);
}

static void
read_records(ZarisWriter *writer, ZarisMove *moves, int n)
{
	for (int i = 0; i < n; i++)
	{
		moves[i].get = zaris_writer_bare_operation(writer, ZARIS_OP_GET, moves[i].old_key);
		moves[i].get->want = ZARIS_WANT_VALUE | ZARIS_WANT_VERSION | ZARIS_WANT_EXPIRY;
		zaris_batch_submit(writer->guard->batch, moves[i].get);
	}
	zaris_writer_wait(writer);
	for (int i = 0; i < n; i++)
	{
		const ZarisOperation *get = moves[i].get;

		writer->attempts += get->attempts + get->hops;
		if (get->status == ZARIS_NOT_FOUND || get->status == ZARIS_WRONG_TYPE ||
			(get->status == ZARIS_OK && get->version != moves[i].version))
			raise_changed(writer, &moves[i]);
		if (get->status != ZARIS_OK)
			zaris_raise_operation(writer->session, get, writer->table->name);
	}
}

/* stage 2 */

/* The record's fields with those that change put over them; what is removed is left out. */
static void
merge_fields(ZarisWriter *writer, const ZarisMove *move, ZarisOperation *put)
{
	const ZarisOperation *get = move->get;
	ZarisField			 *fields = MemoryContextAlloc(writer->context,
													  (get->n_all_fields + move->n_fields + 1) * sizeof(ZarisField));
	int					  n = 0;

	for (int i = 0; i < move->n_fields; i++)
	{
		if (move->fields[i].value.data != NULL)
			fields[n++] = move->fields[i];
	}
	for (int i = 0; i < get->n_all_fields; i++)
	{
		const ZarisField *field = &get->all_fields[i];
		bool			  replaced = false;

		for (int j = 0; j < move->n_fields && !replaced; j++)
			replaced = move->fields[j].name.len == field->name.len &&
					   memcmp(move->fields[j].name.data, field->name.data, field->name.len) == 0;
		if (!replaced)
			fields[n++] = *field;
	}
	if (n == 0)
		zaris_row_raise_empty(writer->table);
	put->fields = fields;
	put->n_fields = n;
}

static void
prepare_put(ZarisWriter *writer, ZarisMove *move)
{
	ZarisOperation *put = zaris_writer_bare_operation(writer, ZARIS_OP_PUT, move->new_key);

	put->precondition = ZARIS_IF_ABSENT;
	if (put->record == ZARIS_RECORD_HASH)
		merge_fields(writer, move, put);
	else
		put->value = move->has_value ? move->value : move->get->result;
	put->expiry = move->expiry;
	put->expires_at_ms = move->expires_at_ms;
	if (move->expiry == ZARIS_EXPIRY_KEEP && move->get->expiry_ms != ZARIS_NO_EXPIRY)
	{
		put->expiry = ZARIS_EXPIRY_SET;
		put->expires_at_ms = move->get->expiry_ms;
	}
	move->put = put;
}

static void
warn_left(const ZarisMove *move, const char *detail)
{
	ereport(WARNING,
			(errmsg("could not undo the record that was created under key \"%s\"", show_key(move->new_key)),
			 errdetail("%s", detail)));
}

/* Take away what stage 2 created for these moves, and nothing that somebody else wrote. */
static void
undo_puts(ZarisWriter *writer, ZarisMove **moves, int n)
{
	ZarisOperation **undos = palloc0((n + 1) * sizeof(ZarisOperation *));

	for (int i = 0; i < n; i++)
	{
		if (!moves[i]->put->has_version)
			continue;
		undos[i] = zaris_writer_bare_operation(writer, ZARIS_OP_DELETE, moves[i]->new_key);
		undos[i]->precondition = ZARIS_IF_MATCH_VERSION;
		undos[i]->match_version = moves[i]->put->version;
		zaris_batch_submit(writer->guard->batch, undos[i]);
	}
	zaris_writer_wait(writer);
	for (int i = 0; i < n; i++)
	{
		if (undos[i] == NULL)
			warn_left(moves[i], "The store did not tell its version.");
		else if (undos[i]->status == ZARIS_CONFLICT)
			warn_left(moves[i], "It was changed concurrently.");
		else if (undos[i]->status != ZARIS_OK)
			warn_left(moves[i], psprintf("The store's status is %s.", zaris_status_name(undos[i]->status)));
	}
}

/* One record or more could not be created: undo the others, and say what happened to the first. */
static void
give_up_creating(ZarisWriter *writer, ZarisMove *moves, int n, ZarisMove *failed)
{
	ZarisMove **created = palloc(n * sizeof(ZarisMove *));
	int			n_created = 0;

	for (int i = 0; i < n; i++)
	{
		if (moves[i].put->status == ZARIS_OK)
			created[n_created++] = &moves[i];
		else if (moves[i].put->status == ZARIS_OUTCOME_UNKNOWN && &moves[i] != failed)
			warn_left(&moves[i], "It is unknown whether it was created.");
	}
	if (n_created > 0)
		undo_puts(writer, created, n_created);
	if (failed->put->status == ZARIS_CONFLICT)
		zaris_writer_raise_duplicate(writer, failed->new_key);
	zaris_raise_operation(writer->session, failed->put, writer->table->name);
}

static void
create_records(ZarisWriter *writer, ZarisMove *moves, int n)
{
	ZarisMove *failed = NULL;

	/* what cannot be written is refused before the first is */
	for (int i = 0; i < n; i++)
		prepare_put(writer, &moves[i]);
	for (int i = 0; i < n; i++)
		zaris_batch_submit(writer->guard->batch, moves[i].put);
	zaris_writer_wait(writer);
	for (int i = n - 1; i >= 0; i--)
	{
		writer->attempts += moves[i].put->attempts + moves[i].put->hops;
		writer->writes++;
		if (moves[i].put->status != ZARIS_OK)
			failed = &moves[i];
	}
	if (failed != NULL)
		give_up_creating(writer, moves, n, failed);
}

/* stage 3 */

/* One old record or more did not go.  Where that is certain the new one goes again; where it is not, both may be there. */
static void
give_up_removing(ZarisWriter *writer, ZarisMove *moves, int n, ZarisMove *failed)
{
	ZarisMove **kept = palloc(n * sizeof(ZarisMove *));
	int			n_kept = 0;

	for (int i = 0; i < n; i++)
	{
		ZarisStatus status = moves[i].delete->status;

		if (status == ZARIS_OUTCOME_UNKNOWN)
			ereport(WARNING,
					(errmsg("record may exist under key \"%s\" and under key \"%s\"",
							show_key(moves[i].old_key), show_key(moves[i].new_key)),
					 errdetail("It is unknown whether the first was deleted.")));
		else if (status != ZARIS_OK)
			kept[n_kept++] = &moves[i];
	}
	if (n_kept > 0)
		undo_puts(writer, kept, n_kept);
	zaris_raise_operation(writer->session, failed->delete, writer->table->name);
}

static void
remove_records(ZarisWriter *writer, ZarisMove *moves, int n)
{
	ZarisMove *failed = NULL;

	for (int i = 0; i < n; i++)
	{
		ZarisOperation *delete = zaris_writer_bare_operation(writer, ZARIS_OP_DELETE, moves[i].old_key);

		delete->precondition = ZARIS_IF_MATCH_VERSION;
		delete->match_version = moves[i].version;
		moves[i].delete = delete;
		zaris_batch_submit(writer->guard->batch, delete);
	}
	zaris_writer_wait(writer);
	for (int i = n - 1; i >= 0; i--)
	{
		zaris_writer_count(writer, moves[i].delete);
		if (moves[i].delete->status != ZARIS_OK)
			failed = &moves[i];
	}
	if (failed != NULL)
		give_up_removing(writer, moves, n, failed);
}

static void
add_move_context(void *argument)
{
	const ZarisWriter *writer = argument;

	/* of several none can be pointed at; the error's own detail names the key */
	if (writer->moves != NULL && writer->moves[0].put != NULL)
		errcontext("moving records of foreign table \"%s\" to other keys, the first from \"%s\" to \"%s\"",
				   writer->table->name, show_key(writer->moves[0].old_key), show_key(writer->moves[0].new_key));
}

void
zaris_move_all(ZarisWriter *writer)
{
	ErrorContextCallback callback = {error_context_stack, add_move_context, writer};
	ZarisMove			*moves = writer->moves;
	int					 n = writer->n_moves;

	/* a cancel between the stages leaves records under both keys: the error's context says so */
	error_context_stack = &callback;
	read_records(writer, moves, n);
	create_records(writer, moves, n);
	remove_records(writer, moves, n);
	error_context_stack = callback.previous;

	for (int i = 0; i < n; i++)
	{
		ZarisWriteResult *result = moves[i].result;

		zaris_written_end(writer->written, moves[i].old_fingerprint);
		zaris_written_end(writer->written, moves[i].new_fingerprint);
		if (result == NULL)
			continue;
		result->applied = true;
		result->has_version = moves[i].put->has_version;
		result->version = moves[i].put->version;
	}
	writer->n_moves = 0;
}
