/*
 * row.c
 *	  A row becomes the request of an operation: see row.h.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "backend/error.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fdw/codec.h"
#include "fdw/row.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define KEY_IN_MESSAGE 60 /* characters */

ZarisBytes
zaris_row_key(const ZarisTable *table, const Datum *values, const bool *nulls)
{
	StringInfoData text;
	ZarisBytes	   key;

	initStringInfo(&text);
	zaris_key_format(table, values, nulls, &text);
	key = (ZarisBytes){text.data, text.len};

	/* the key would be another row's, or nobody's: what was written could not be read back (I12) */
	if (!zaris_key_is_exact(table, values, key))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key columns of foreign table \"%s\" do not fit its key template", table->name),
				 errdetail("They give the key \"%s\", which stands for other values.",
						   zaris_printable(key.data, key.len, KEY_IN_MESSAGE))));
	return key;
}

/*
 * The codec may hand out a datum's own bytes.  Bytes of a toasted or packed copy that it made are in the current
 * context already.
 */
static ZarisBytes
own_bytes(const ZarisColumn *column, ZarisBytes bytes, Datum value)
{
	const char *datum;
	char	   *copy;

	if ((column->codec != ZARIS_CODEC_TEXT && column->codec != ZARIS_CODEC_BYTES) || column->base_type == NAMEOID)
		return bytes;
	datum = DatumGetPointer(value);
	if (bytes.data >= datum && bytes.data <= datum + VARSIZE_ANY(datum))
	{
		copy = MemoryContextAllocHuge(CurrentMemoryContext, bytes.len + 1);
		memcpy(copy, bytes.data, bytes.len);
		return (ZarisBytes){copy, bytes.len};
	}
	return bytes;
}

ZarisBytes
zaris_row_value(const ZarisTable *table, const ZarisColumn *column, Datum value, bool is_null)
{
	if (is_null)
		return (ZarisBytes){NULL, 0};
	return own_bytes(column, zaris_codec_encode(table, column, value), value);
}

void
zaris_row_raise_null(const ZarisTable *table, const ZarisColumn *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
					column->name, table->name)));
}

void
zaris_row_raise_empty(const ZarisTable *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("row of foreign table \"%s\" has no field that is not null", table->name),
			 errdetail("A record of layout 'hash' exists only as long as it has a field."),
			 errhint("Give at least one of the columns a value, or delete the row.")));
}

ZarisBytes
zaris_row_string(const ZarisTable *table, TupleTableSlot *slot)
{
	int index = table->value->attnum - 1;

	if (slot->tts_isnull[index])
		zaris_row_raise_null(table, table->value);
	return zaris_row_value(table, table->value, slot->tts_values[index], false);
}

static bool
has_any_field(const ZarisTable *table, TupleTableSlot *slot)
{
	for (int i = 0; i < table->n_fields; i++)
	{
		if (!slot->tts_isnull[table->fields[i]->attnum - 1])
			return true;
	}
	return false;
}

int
zaris_row_changed_fields(const ZarisTable *table, TupleTableSlot *slot, const Bitmapset *columns, ZarisField **fields)
{
	int n = 0;

	*fields = palloc((table->n_fields + 1) * sizeof(ZarisField));
	for (int i = 0; i < table->n_fields; i++)
	{
		const ZarisColumn *column = table->fields[i];
		int				   index = column->attnum - 1;

		if (columns != NULL && !bms_is_member(column->attnum - FirstLowInvalidHeapAttributeNumber, columns))
			continue;
		(*fields)[n].name = column->field;
		(*fields)[n].value = zaris_row_value(table, column, slot->tts_values[index], slot->tts_isnull[index]);
		n++;
	}
	return n;
}

void
zaris_row_new_contents(const ZarisTable *table, TupleTableSlot *slot, ZarisOperation *put)
{
	ZarisField *fields;
	int			n;

	if (table->layout == ZARIS_LAYOUT_STRING)
	{
		put->value = zaris_row_string(table, slot);
		return;
	}
	if (!has_any_field(table, slot))
		zaris_row_raise_empty(table);
	n = zaris_row_changed_fields(table, slot, NULL, &fields);

	/* of a new record a NULL is nothing that had to be said */
	put->fields = fields;
	for (int i = 0; i < n; i++)
	{
		if (fields[i].value.data != NULL)
			fields[put->n_fields++] = fields[i];
	}
}

int64
zaris_row_expiry_after(int64 ms)
{
	int64 now_ms = zaris_codec_expiry_ms(TimestampTzGetDatum(GetCurrentTimestamp()));
	int64 sum;

	/* as good as never, but a time that every store can hold */
	if (pg_add_s64_overflow(now_ms, ms, &sum))
		return PG_INT64_MAX / 1000;
	return sum;
}

int64
zaris_row_expiry_ms(const ZarisColumn *column, Datum value)
{
	int64 ms = zaris_codec_expiry_ms(value);

	/* a store would delete the record at once, and the statement would claim to have written it */
	if (ms <= zaris_row_expiry_after(0))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("value for column \"%s\" lies in the past", column->name),
				 errdetail("The record would have expired already."),
				 errhint("Use DELETE to remove a record.")));
	return ms;
}
