/*
 * codec.c
 *	  Values between Datum and the bytes that are stored.
 *
 * Most types never see their input or output function: text and bytea are copied, and the types with a canonical
 * text (canonical.h) are read and written by it; what is spelt otherwise falls back to the input function.  All
 * other types go through their functions with the settings pinned that would change the text.
 */
#include "postgres.h"

#include "backend/error.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fdw/canonical.h"
#include "fdw/codec.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define KEY_IN_MESSAGE 60 /* characters of a key that a message shows */
#define UNIX_TO_POSTGRES_MS \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * INT64CONST(86400000))

typedef struct DecodeContext
{
	const ZarisTable  *table;
	const ZarisColumn *column;
	ZarisBytes		   key;
} DecodeContext;

/* Set one variable for the nest that pin_settings opens. */
static void
pin(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Make types' text independent of the session.  The default settings do already, so that hardly anyone pays for
 * the nest: -1 = there is nothing to unpin.
 */
static int
pin_settings(const ZarisColumn *column)
{
	bool reads_session = zaris_column_reads_session(column);
	int	 nest;

	if (!reads_session && DateStyle == USE_ISO_DATES && IntervalStyle == INTSTYLE_POSTGRES && extra_float_digits > 0 &&
		bytea_output == BYTEA_OUTPUT_HEX)
		return -1;
	nest = NewGUCNestLevel();
	pin("datestyle", "ISO");
	pin("intervalstyle", "postgres");
	pin("bytea_output", "hex");
	if (extra_float_digits <= 0)
		pin("extra_float_digits", "3");
	if (reads_session)
	{
		pin("search_path", "pg_catalog");
		pin("xmloption", "content");
		pin("lc_monetary", "C");
	}
	return nest;
}

static void
unpin_settings(int nest)
{
	if (nest >= 0)
		AtEOXact_GUC(true, nest);
}

/* reading */

static void
add_decode_context(void *argument)
{
	const DecodeContext *context = argument;

	errcontext("key \"%s\", column \"%s\" of foreign table \"%s\"",
			   zaris_printable(context->key.data, context->key.len, KEY_IN_MESSAGE),
			   context->column->name, context->table->name);
}

static void
require_valid_text(const ZarisTable *table, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key)
{
	if (bytes.len <= MaxAllocSize - VARHDRSZ - 1 && pg_verifymbstr(bytes.data, (int) bytes.len, true))
		return;
	if (bytes.len > MaxAllocSize - VARHDRSZ - 1)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of column \"%s\" of foreign table \"%s\" is too large", column->name, table->name)));
	ereport(ERROR,
			(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
			 errmsg("value of column \"%s\" of foreign table \"%s\" is not valid text in encoding \"%s\"",
					column->name, table->name, GetDatabaseEncodingName()),
			 errdetail("Key: \"%s\".", zaris_printable(key.data, key.len, KEY_IN_MESSAGE)),
			 errhint("A column of type bytea takes any bytes.")));
}

/* By the type's own input function, whose error then names key and column. */
static Datum
decode_by_input(const ZarisTable *table, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key)
{
	FmgrInfo			*input = zaris_column_input(column); /* before the column's ioparam is read */
	DecodeContext		 context = {table, column, key};
	ErrorContextCallback callback = {error_context_stack, add_decode_context, &context};
	char				*text = pnstrdup(bytes.data, bytes.len);
	int					 nest;
	Datum				 value;

	error_context_stack = &callback;
	nest = pin_settings(column);
	value = InputFunctionCall(input, text, column->input_ioparam, column->typmod);
	unpin_settings(nest);
	error_context_stack = callback.previous;
	pfree(text);
	return value;
}

/* bytea takes any bytes; a domain over it still has its say. */
static Datum
decode_bytes(const ZarisTable *table, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key)
{
	DecodeContext		 context = {table, column, key};
	ErrorContextCallback callback = {error_context_stack, add_decode_context, &context};
	Datum				 value;

	if (bytes.len > MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of column \"%s\" of foreign table \"%s\" is too large", column->name, table->name)));
	value = PointerGetDatum(cstring_to_text_with_len(bytes.data, (int) bytes.len));
	if (column->domain == NULL)
		return value;
	error_context_stack = &callback;
	domain_check(value, false, column->type, NULL, NULL);
	error_context_stack = callback.previous;
	return value;
}

Datum
zaris_codec_decode(const ZarisTable *table, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key)
{
	Datum value;

	if (column->codec == ZARIS_CODEC_BYTES)
		return decode_bytes(table, column, bytes, key);

	/* before any type's function sees it: their messages quote what they were given */
	require_valid_text(table, column, bytes, key);
	if (column->codec == ZARIS_CODEC_TEXT && column->domain == NULL && column->typmod < 0 &&
		column->base_type != NAMEOID)
		return PointerGetDatum(cstring_to_text_with_len(bytes.data, (int) bytes.len));
	if (column->codec != ZARIS_CODEC_OTHER && column->codec != ZARIS_CODEC_TEXT &&
		zaris_canonical_parse(column, bytes.data, bytes.len, &value))
		return value;
	return decode_by_input(table, column, bytes, key);
}

/* writing */

static ZarisBytes
encode_by_output(const ZarisColumn *column, Datum value)
{
	int	  nest = pin_settings(column);
	char *text = OutputFunctionCall(zaris_column_output(column), value);

	unpin_settings(nest);
	return (ZarisBytes){text, strlen(text)};
}

static ZarisBytes
encode_canonical(const ZarisColumn *column, Datum value)
{
	StringInfoData text;

	initStringInfo(&text);
	zaris_canonical_append(column, value, &text);
	return (ZarisBytes){text.data, text.len};
}

ZarisBytes
zaris_codec_encode(const ZarisTable *table, const ZarisColumn *column, Datum value)
{
	ZarisBytes bytes;

	if (column->codec == ZARIS_CODEC_OTHER)
		bytes = encode_by_output(column, value);
	else if (column->codec == ZARIS_CODEC_BYTES ||
			 (column->codec == ZARIS_CODEC_TEXT && column->base_type != NAMEOID))
	{
		struct varlena *datum = PG_DETOAST_DATUM_PACKED(value);

		bytes = (ZarisBytes){VARDATA_ANY(datum), VARSIZE_ANY_EXHDR(datum)};
	}
	else
		bytes = encode_canonical(column, value);
	if (bytes.len > ZARIS_MAX_VALUE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value for column \"%s\" of foreign table \"%s\" is too large", column->name, table->name),
				 errdetail("It has %zu bytes, a record holds at most %zu.", bytes.len, ZARIS_MAX_VALUE)));
	return bytes;
}

/* expires_at */

Datum
zaris_codec_expiry(int64 ms)
{
	int64 moment;

	/* what lies behind the end of timestamptz is as good as infinitely far away */
	if (pg_sub_s64_overflow(ms, UNIX_TO_POSTGRES_MS, &moment) ||
		pg_mul_s64_overflow(moment, 1000, &moment) ||
		!IS_VALID_TIMESTAMP(moment))
		return TimestampTzGetDatum(ms < 0 ? DT_NOBEGIN : DT_NOEND);
	return TimestampTzGetDatum(moment);
}

int64
zaris_codec_expiry_ms(Datum value)
{
	TimestampTz moment = DatumGetTimestampTz(value);
	int64		ms;

	if (TIMESTAMP_NOT_FINITE(moment))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("expiry of a record cannot be infinite"),
				 errhint("NULL means that it does not expire.")));

	/* downwards, so that a record never outlives what was asked for; no overflow: us become ms first */
	ms = moment / 1000 - (moment % 1000 < 0 ? 1 : 0) + UNIX_TO_POSTGRES_MS;
	if (ms <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("expiry of a record cannot lie before 1970")));
	return ms;
}
