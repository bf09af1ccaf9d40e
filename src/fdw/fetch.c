/*
 * fetch.c
 *	  What a read must fetch of each record, and how a record becomes a row.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fdw/codec.h"
#include "fdw/fetch.h"
#include "nodes/pg_list.h"

ZarisFetch *
zaris_fetch_create(const ZarisTable *table, List *columns, bool header)
{
	ZarisFetch *fetch = palloc0(sizeof(*fetch));
	ListCell   *cell;

	fetch->table = table;
	fetch->header = header;
	fetch->fields = palloc0(table->n_columns * sizeof(ZarisColumn *));
	fetch->field_names = palloc0(table->n_columns * sizeof(ZarisBytes));
	foreach (cell, columns)
	{
		const ZarisColumn *column = &table->columns[lfirst_int(cell) - 1];

		switch (column->role)
		{
			case ZARIS_COLUMN_VALUE:
				fetch->value = true;
				break;
			case ZARIS_COLUMN_FIELD:
				fetch->field_names[fetch->n_fields] = column->field;
				fetch->fields[fetch->n_fields++] = column;
				break;
			case ZARIS_COLUMN_VERSION:
				fetch->version = true;
				break;
			case ZARIS_COLUMN_EXPIRES_AT:
				fetch->expires_at = true;
				break;
			case ZARIS_COLUMN_KEY:
			case ZARIS_COLUMN_NONE:
				break;
		}
	}

	/* a hash without a listed field would be fetched whole, so no field means no value */
	if (fetch->value || fetch->n_fields > 0)
		fetch->want |= ZARIS_WANT_VALUE;
	if (fetch->version || header)
		fetch->want |= ZARIS_WANT_VERSION;
	if (fetch->expires_at)
		fetch->want |= ZARIS_WANT_EXPIRY;
	return fetch;
}

static void
fill_column(const ZarisFetch *fetch, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key, TupleTableSlot *slot)
{
	int index = column->attnum - 1;

	if (bytes.data == NULL)
		return; /* a field that is not there is NULL, also in a NOT NULL column */
	slot->tts_values[index] = zaris_codec_decode(fetch->table, column, bytes, key);
	slot->tts_isnull[index] = false;
}

static void
fill_version(const ZarisFetch *fetch, const ZarisRecord *record, TupleTableSlot *slot)
{
	int index = fetch->table->version->attnum - 1;

	slot->tts_values[index] = Int64GetDatum(record->version);
	slot->tts_isnull[index] = false;
}

static void
fill_expiry(const ZarisFetch *fetch, const ZarisRecord *record, TupleTableSlot *slot)
{
	int index = fetch->table->expires_at->attnum - 1;

	if (record->expiry_ms == ZARIS_NO_EXPIRY)
		return;
	slot->tts_values[index] = zaris_codec_expiry(record->expiry_ms);
	slot->tts_isnull[index] = false;
}

/*
 * The contract with modify.c: the version in a tuple's header, high half as xmin, low half as xmax.  It is the one
 * place where a row can carry it through joins and sorts without a column that users would see.
 */
static void
store_with_header(const ZarisFetch *fetch, int64 version, TupleTableSlot *slot)
{
	HeapTuple tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);

	/*
	 * A formed tuple is a composite datum, whose length and type lie where xmin and xmax do.  Newer minor releases mark
	 * that in the header and check it (HEAP_IS_DATUM: these two bits), so the mark goes first.
	 */
	tuple->t_data->t_infomask &= ~(HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID);
	HeapTupleHeaderSetXmin(tuple->t_data, (TransactionId) ((uint64) version >> 32));
	HeapTupleHeaderSetXmax(tuple->t_data, (TransactionId) ((uint64) version & 0xffffffff));
	tuple->t_tableOid = fetch->table->relid;
	ExecForceStoreHeapTuple(tuple, slot, false);
}

bool
zaris_fetch_store(const ZarisFetch *fetch, const ZarisRecord *record, TupleTableSlot *slot)
{
	const ZarisTable *table = fetch->table;

	if (!zaris_key_parse(table, record->key, slot->tts_values))
		return false;
	memset(slot->tts_isnull, true, table->n_columns * sizeof(bool));
	for (int i = 0; i < table->n_key_columns; i++)
		slot->tts_isnull[table->key_columns[i]->attnum - 1] = false;
	if (fetch->value)
		fill_column(fetch, table->value, record->value, record->key, slot);

	/* a store answers with the fields in the order in which they were asked for */
	Assert(fetch->n_fields == 0 || fetch->n_fields == record->n_fields);
	for (int i = 0; i < fetch->n_fields; i++)
		fill_column(fetch, fetch->fields[i], record->fields[i].value, record->key, slot);
	if (fetch->version)
		fill_version(fetch, record, slot);
	if (fetch->expires_at)
		fill_expiry(fetch, record, slot);
	if (fetch->header)
		store_with_header(fetch, record->version, slot);
	else
		ExecStoreVirtualTuple(slot);
	return true;
}

char *
zaris_fetch_description(const ZarisFetch *fetch)
{
	StringInfoData text;

	initStringInfo(&text);
	if (fetch->value)
		appendStringInfoString(&text, "value");
	for (int i = 0; i < fetch->n_fields; i++)
		appendStringInfo(&text, "%s%.*s", i > 0 ? ", " : fetch->n_fields > 1 ? "fields "
																			 : "field ",
						 (int) fetch->field_names[i].len, fetch->field_names[i].data);
	if (fetch->want & ZARIS_WANT_VERSION)
		appendStringInfo(&text, "%sversion", text.len > 0 ? ", " : "");
	if (fetch->want & ZARIS_WANT_EXPIRY)
		appendStringInfo(&text, "%sexpiry", text.len > 0 ? ", " : "");
	return text.len > 0 ? text.data : pstrdup("keys only");
}
