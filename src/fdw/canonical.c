/*
 * canonical.c
 *	  The one text that a value has in a key: written and read here, type by type.
 *
 * Dates are formatted with a fixed style instead of the session's DateStyle, and read by a strict reader of our own:
 * PostgreSQL's input functions raise, accept many spellings and depend on settings, and a scan calls this for each
 * key it sees.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/executor.h"
#include "fdw/canonical.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#define UUID_TEXT_LEN 36

/* A domain's constraints, kept current by the type cache. */
struct ZarisDomain
{
	DomainConstraintRef constraints;
	ExprContext		   *econtext;
};

ZarisCodecKind
zaris_canonical_kind(Oid base_type)
{
	switch (base_type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
			return ZARIS_CODEC_TEXT;
		case BYTEAOID:
			return ZARIS_CODEC_BYTES;
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return ZARIS_CODEC_INTEGER;
		case BOOLOID:
			return ZARIS_CODEC_BOOLEAN;
		case UUIDOID:
			return ZARIS_CODEC_UUID;
		case DATEOID:
			return ZARIS_CODEC_DATE;
		case TIMESTAMPTZOID:
			return ZARIS_CODEC_TIMESTAMPTZ;
		default:
			return type_is_enum(base_type) ? ZARIS_CODEC_ENUM : ZARIS_CODEC_OTHER;
	}
}

struct ZarisDomain *
zaris_canonical_domain(Oid type)
{
	struct ZarisDomain *domain;

	if (get_typtype(type) != TYPTYPE_DOMAIN)
		return NULL;
	domain = palloc0(sizeof(*domain));
	InitDomainConstraintRef(type, &domain->constraints, CurrentMemoryContext, true);
	domain->econtext = CreateStandaloneExprContext();
	return domain;
}

/* values to text */

static void
append_integer(Oid type, Datum value, StringInfo text)
{
	char  buffer[MAXINT8LEN + 1];
	int64 number;

	if (type == INT2OID)
		number = DatumGetInt16(value);
	else if (type == INT4OID)
		number = DatumGetInt32(value);
	else
		number = DatumGetInt64(value);
	appendBinaryStringInfo(text, buffer, pg_lltoa(number, buffer));
}

static void
append_uuid(const pg_uuid_t *uuid, StringInfo text)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < UUID_LEN; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			appendStringInfoCharMacro(text, '-');
		appendStringInfoCharMacro(text, digits[uuid->data[i] >> 4]);
		appendStringInfoCharMacro(text, digits[uuid->data[i] & 0x0f]);
	}
}

static void
append_date(DateADT date, StringInfo text)
{
	char		 buffer[MAXDATELEN + 1];
	struct pg_tm tm = {0};

	if (DATE_NOT_FINITE(date))
		EncodeSpecialDate(date, buffer);
	else
	{
		j2date(date + POSTGRES_EPOCH_JDATE, &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
		EncodeDateOnly(&tm, USE_ISO_DATES, buffer);
	}
	appendStringInfoString(text, buffer);
}

/* In UTC, so that the same moment has the same text in every session. */
static void
append_timestamptz(TimestampTz moment, StringInfo text)
{
	char		 buffer[MAXDATELEN + 1];
	struct pg_tm tm = {0};
	fsec_t		 fsec = 0;

	if (TIMESTAMP_NOT_FINITE(moment))
		EncodeSpecialTimestamp(moment, buffer);
	else
	{
		/* no zone asked for: the fields come as they are stored, in UTC */
		if (timestamp2tm(moment, NULL, &tm, &fsec, NULL, NULL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("timestamp out of range")));
		tm.tm_isdst = 0; /* known, so that the zone is written */
		EncodeDateTime(&tm, fsec, true, 0, NULL, USE_ISO_DATES, buffer);
	}
	appendStringInfoString(text, buffer);
}

static void
append_enum(Oid label, StringInfo text)
{
	HeapTuple tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(label));

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid internal value for enum: %u", label)));
	appendStringInfoString(text, NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	ReleaseSysCache(tuple);
}

/* text, varchar, bytea: the bytes of a varlena, wherever it lies */
static void
append_varlena(Datum value, StringInfo text)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

	appendBinaryStringInfo(text, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	if ((Pointer) bytes != DatumGetPointer(value))
		pfree(bytes);
}

void
zaris_canonical_append(const ZarisColumn *column, Datum value, StringInfo text)
{
	switch (column->codec)
	{
		case ZARIS_CODEC_TEXT:
			if (column->base_type == NAMEOID)
				appendStringInfoString(text, NameStr(*DatumGetName(value)));
			else
				append_varlena(value, text);
			return;
		case ZARIS_CODEC_BYTES:
			append_varlena(value, text);
			return;
		case ZARIS_CODEC_INTEGER:
			append_integer(column->base_type, value, text);
			return;
		case ZARIS_CODEC_BOOLEAN:
			appendStringInfoChar(text, DatumGetBool(value) ? 't' : 'f');
			return;
		case ZARIS_CODEC_UUID:
			append_uuid(DatumGetUUIDP(value), text);
			return;
		case ZARIS_CODEC_DATE:
			append_date(DatumGetDateADT(value), text);
			return;
		case ZARIS_CODEC_TIMESTAMPTZ:
			append_timestamptz(DatumGetTimestampTz(value), text);
			return;
		case ZARIS_CODEC_ENUM:
			append_enum(DatumGetObjectId(value), text);
			return;
		case ZARIS_CODEC_OTHER:
			break;
	}
	elog(ERROR, "column \"%s\" has no canonical text", column->name);
}

/* text to values */

static bool
parse_text(const ZarisColumn *column, const char *text, size_t len, Datum *value)
{
	if (len > MaxAllocSize - VARHDRSZ || !pg_verifymbstr(text, (int) len, true))
		return false;
	if (column->base_type == NAMEOID)
	{
		Name name;

		if (len >= NAMEDATALEN)
			return false;
		name = palloc0(NAMEDATALEN);
		memcpy(NameStr(*name), text, len);
		*value = NameGetDatum(name);
		return true;
	}

	/* a typmod of varchar or char: so many characters and not more */
	if (column->typmod >= (int32) VARHDRSZ)
	{
		int chars = pg_mbstrlen_with_len(text, (int) len);
		int most = column->typmod - VARHDRSZ;

		/* char(n) shorter than n would come back with blanks behind it */
		if (chars > most || (column->base_type == BPCHAROID && chars != most))
			return false;
	}
	*value = PointerGetDatum(cstring_to_text_with_len(text, (int) len));
	return true;
}

/* Decimal and canonical: no plus, no leading zero, no -0. */
static bool
parse_integer(Oid type, const char *text, size_t len, Datum *value)
{
	const char *end = text + len;
	bool		negative = len > 0 && *text == '-';
	int64		number = 0;

	text += negative ? 1 : 0;
	if (text == end || end - text > 19)
		return false;
	if (*text == '0' && (negative || end - text > 1))
		return false;
	for (; text < end; text++)
	{
		if (*text < '0' || *text > '9')
			return false;
		/* downwards, since the smallest has no positive twin */
		if (pg_mul_s64_overflow(number, 10, &number) || pg_sub_s64_overflow(number, *text - '0', &number))
			return false;
	}
	if (!negative)
	{
		if (number == PG_INT64_MIN)
			return false;
		number = -number;
	}
	if (type == INT8OID)
		*value = Int64GetDatum(number);
	else if (type == INT4OID && number >= PG_INT32_MIN && number <= PG_INT32_MAX)
		*value = Int32GetDatum((int32) number);
	else if (type == INT2OID && number >= PG_INT16_MIN && number <= PG_INT16_MAX)
		*value = Int16GetDatum((int16) number);
	else
		return false;
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
parse_uuid(const char *text, size_t len, Datum *value)
{
	pg_uuid_t *uuid;

	if (len != UUID_TEXT_LEN)
		return false;
	uuid = palloc(sizeof(*uuid));
	for (int i = 0; i < UUID_LEN; i++)
	{
		int high,
			low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return false;
		high = hex_digit(*text++);
		low = hex_digit(*text++);
		if (high < 0 || low < 0)
			return false;
		uuid->data[i] = (unsigned char) (high << 4 | low);
	}
	*value = UUIDPGetDatum(uuid);
	return true;
}

/* Between least and most digits at *at, then moved past them. */
static bool
take_digits(const char **at, const char *end, int least, int most, int *number)
{
	int n = 0;

	*number = 0;
	while (*at < end && n < most && **at >= '0' && **at <= '9')
	{
		*number = *number * 10 + (**at - '0');
		(*at)++;
		n++;
	}
	return n >= least;
}

static bool
take_char(const char **at, const char *end, char c)
{
	if (*at >= end || **at != c)
		return false;
	(*at)++;
	return true;
}

/* " BC" at the end of what is left; cuts it off. */
static bool
cut_bc(const char *text, const char **end)
{
	if (*end - text < 3 || memcmp(*end - 3, " BC", 3) != 0)
		return false;
	*end -= 3;
	return true;
}

/* Year, month and day; seven digits of a year are more than any valid date has. */
static bool
take_date(const char **at, const char *end, bool bc, struct pg_tm *tm)
{
	if (!take_digits(at, end, 4, 7, &tm->tm_year) || !take_char(at, end, '-') ||
		!take_digits(at, end, 2, 2, &tm->tm_mon) || !take_char(at, end, '-') ||
		!take_digits(at, end, 2, 2, &tm->tm_mday))
		return false;
	if (tm->tm_year < 1 || tm->tm_mon < 1 || tm->tm_mon > MONTHS_PER_YEAR)
		return false;
	if (bc)
		tm->tm_year = 1 - tm->tm_year;
	return tm->tm_mday >= 1 && tm->tm_mday <= day_tab[isleap(tm->tm_year)][tm->tm_mon - 1];
}

static bool
is_text(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

static bool
parse_date(const char *text, size_t len, Datum *value)
{
	const char	*end = text + len;
	struct pg_tm tm = {0};
	DateADT		 date;
	bool		 bc;

	if (is_text(text, len, "infinity"))
		DATE_NOEND(date);
	else if (is_text(text, len, "-infinity"))
		DATE_NOBEGIN(date);
	else
	{
		bc = cut_bc(text, &end);
		if (!take_date(&text, end, bc, &tm) || text != end)
			return false;
		if (!IS_VALID_JULIAN(tm.tm_year, tm.tm_mon, tm.tm_mday))
			return false;
		date = date2j(tm.tm_year, tm.tm_mon, tm.tm_mday) - POSTGRES_EPOCH_JDATE;
		if (!IS_VALID_DATE(date))
			return false;
	}
	*value = DateADTGetDatum(date);
	return true;
}

/* ".5" behind the seconds; up to six digits */
static bool
take_fraction(const char **at, const char *end, fsec_t *fsec)
{
	const char *start;
	int			digits;

	*fsec = 0;
	if (!take_char(at, end, '.'))
		return true;
	start = *at;
	if (!take_digits(at, end, 1, 6, &digits))
		return false;
	for (int n = (int) (*at - start); n < 6; n++)
		digits *= 10;
	*fsec = digits;
	return true;
}

static bool
parse_timestamptz(const char *text, size_t len, Datum *value)
{
	const char	*end = text + len;
	struct pg_tm tm = {0};
	fsec_t		 fsec;
	Timestamp	 moment;
	bool		 bc;

	if (is_text(text, len, "infinity"))
		TIMESTAMP_NOEND(moment);
	else if (is_text(text, len, "-infinity"))
		TIMESTAMP_NOBEGIN(moment);
	else
	{
		bc = cut_bc(text, &end);
		if (end - text < 3 || memcmp(end - 3, "+00", 3) != 0)
			return false;
		end -= 3;
		if (!take_date(&text, end, bc, &tm) || !take_char(&text, end, ' ') ||
			!take_digits(&text, end, 2, 2, &tm.tm_hour) || !take_char(&text, end, ':') ||
			!take_digits(&text, end, 2, 2, &tm.tm_min) || !take_char(&text, end, ':') ||
			!take_digits(&text, end, 2, 2, &tm.tm_sec) || !take_fraction(&text, end, &fsec) || text != end)
			return false;
		if (tm.tm_hour >= HOURS_PER_DAY || tm.tm_min >= MINS_PER_HOUR || tm.tm_sec >= SECS_PER_MINUTE)
			return false;
		if (tm2timestamp(&tm, fsec, NULL, &moment) != 0)
			return false;
	}
	*value = TimestampTzGetDatum(moment);
	return true;
}

static bool
parse_enum(const ZarisColumn *column, const char *text, size_t len, Datum *value)
{
	char	  label[NAMEDATALEN];
	HeapTuple tuple;

	if (len >= NAMEDATALEN || !pg_verifymbstr(text, (int) len, true))
		return false;
	memcpy(label, text, len);
	label[len] = '\0';
	tuple = SearchSysCache2(ENUMTYPOIDNAME, ObjectIdGetDatum(column->base_type), CStringGetDatum(label));
	if (!HeapTupleIsValid(tuple))
		return false;
	*value = ObjectIdGetDatum(((Form_pg_enum) GETSTRUCT(tuple))->oid);
	ReleaseSysCache(tuple);
	return true;
}

static bool
parse_base(const ZarisColumn *column, const char *text, size_t len, Datum *value)
{
	switch (column->codec)
	{
		case ZARIS_CODEC_TEXT:
			return parse_text(column, text, len, value);
		case ZARIS_CODEC_BYTES:
			if (len > MaxAllocSize - VARHDRSZ)
				return false;
			*value = PointerGetDatum(cstring_to_text_with_len(text, (int) len));
			return true;
		case ZARIS_CODEC_INTEGER:
			return parse_integer(column->base_type, text, len, value);
		case ZARIS_CODEC_BOOLEAN:
			*value = BoolGetDatum(len == 1 && *text == 't');
			return len == 1 && (*text == 't' || *text == 'f');
		case ZARIS_CODEC_UUID:
			return parse_uuid(text, len, value);
		case ZARIS_CODEC_DATE:
			return parse_date(text, len, value);
		case ZARIS_CODEC_TIMESTAMPTZ:
			return parse_timestamptz(text, len, value);
		case ZARIS_CODEC_ENUM:
			return parse_enum(column, text, len, value);
		case ZARIS_CODEC_OTHER:
			break;
	}
	return false;
}

/* 00024-01-01, 12:00:00.50: well formed, but not as we would write it */
static bool
is_spelt_canonically(const ZarisColumn *column, const char *text, size_t len, Datum value)
{
	StringInfoData again;
	bool		   same;

	if (column->codec != ZARIS_CODEC_DATE && column->codec != ZARIS_CODEC_TIMESTAMPTZ)
		return true; /* their parsers accept one spelling only */
	initStringInfo(&again);
	zaris_canonical_append(column, value, &again);
	same = (size_t) again.len == len && memcmp(again.data, text, len) == 0;
	pfree(again.data);
	return same;
}

/* timestamptz(p) holds only what rounding leaves alone */
static bool
fits_typmod(const ZarisColumn *column, Datum value)
{
	if (column->codec != ZARIS_CODEC_TIMESTAMPTZ || column->typmod < 0)
		return true; /* varchar(n) is checked while parsing */
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_scale, value, Int32GetDatum(column->typmod))) ==
		   DatumGetTimestampTz(value);
}

/*
 * Like domain_check(), but says no instead of raising: a key that a domain refuses is not the table's.  (A CHECK
 * expression that raises by itself still does.)
 */
static bool
fits_domain(const ZarisColumn *column, Datum value)
{
	struct ZarisDomain *domain = column->domain;
	ListCell		   *cell;
	bool				fits = true;

	if (domain == NULL)
		return true;
	UpdateDomainConstraintRef(&domain->constraints);
	domain->econtext->domainValue_datum = value;
	domain->econtext->domainValue_isNull = false;
	foreach (cell, domain->constraints.constraints)
	{
		DomainConstraintState *constraint = lfirst(cell);

		if (constraint->constrainttype == DOM_CONSTRAINT_CHECK &&
			!ExecCheck(constraint->check_exprstate, domain->econtext))
		{
			fits = false;
			break;
		}
	}
	ResetExprContext(domain->econtext);
	return fits;
}

bool
zaris_canonical_parse(const ZarisColumn *column, const char *text, size_t len, Datum *value)
{
	return parse_base(column, text, len, value) &&
		   is_spelt_canonically(column, text, len, *value) &&
		   fits_typmod(column, *value) &&
		   fits_domain(column, *value);
}
