/*
 * lookup.c
 *	  The keys that a plan names: its expressions evaluated, multiplied out, made into keys.
 *
 * Each bound column gets a list of distinct values.  The keys are the product of the lists, counted through like an
 * odometer, the last column fastest.  Two tuples of values may format to the same bytes ('a:b','c' and 'a','b:c' under
 * '<x>:<y>'), but only one of them is what such a key parses to (I12), so that no key comes twice.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fdw/canonical.h"
#include "fdw/lookup.h"
#include "fdw/plan.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* One expression of a bound column. */
typedef struct LookupSource
{
	ExprState *state;
	Oid		   type; /* of a value: an array's element */
	bool	   is_array;
} LookupSource;

typedef struct LookupColumn
{
	const ZarisColumn *column;
	int				   n_sources;
	LookupSource	  *sources;
	int				   n_values;
	int				   n_allocated;
	Datum			  *values;	   /* distinct, of the column's base type */
	HTAB			  *seen;	   /* their texts; NULL while there is at most one */
	long			   n_expected; /* of values, for the size of seen */
	int				   at;		   /* the odometer's wheel */
} LookupColumn;

struct ZarisLookup
{
	const ZarisTable *table;
	int				  n_columns;  /* bound, leading */
	bool			  are_tuples; /* the columns' n-th values belong together, else all combinations are meant */
	LookupColumn	 *columns;
	ZarisPatternKind  pattern_kind;
	ExprState		 *pattern;
	MemoryContext	  values_context; /* what one evaluation found */
	MemoryContext	  scratch;		  /* reset for each key */
	bool			  finished;		  /* no key (any more) */
	bool			  no_match;		  /* the pattern was NULL */
	char			 *fixed;		  /* what the pattern lets keys begin with */
	int				  fixed_len;
	Datum			 *row; /* scratch, by attnum - 1 */
};

/* building */

static void
create_column(LookupColumn *column, List *is_array, ListCell **expression, List *expressions, PlanState *planstate)
{
	ListCell *cell;

	column->n_sources = list_length(is_array);
	column->sources = palloc0(column->n_sources * sizeof(LookupSource));
	foreach (cell, is_array)
	{
		LookupSource *source = &column->sources[foreach_current_index(cell)];
		Expr		 *value = lfirst(*expression);

		source->state = ExecInitExpr(value, planstate);
		source->type = getBaseType(exprType((Node *) value));
		source->is_array = lfirst_int(cell) != 0;
		*expression = lnext(expressions, *expression);
	}
}

ZarisLookup *
zaris_lookup_create(const ZarisTable *table, List *fdw_private, List *fdw_exprs, PlanState *planstate)
{
	ZarisLookup *lookup = palloc0(sizeof(*lookup));
	List		*bindings = list_nth(fdw_private, ZARIS_PRIVATE_BINDINGS);
	ListCell	*expression = list_head(fdw_exprs);
	ListCell	*cell;

	lookup->table = table;
	lookup->n_columns = list_length(bindings);
	lookup->columns = palloc0(lookup->n_columns * sizeof(LookupColumn));
	foreach (cell, bindings)
	{
		LookupColumn *column = &lookup->columns[foreach_current_index(cell)];

		column->column = table->key_columns[foreach_current_index(cell)];
		create_column(column, lfirst(cell), &expression, fdw_exprs, planstate);
	}
	lookup->are_tuples = intVal(list_nth(fdw_private, ZARIS_PRIVATE_OPERATION)) == ZARIS_SCAN_GET_TUPLES;
	lookup->pattern_kind = (ZarisPatternKind) intVal(list_nth(fdw_private, ZARIS_PRIVATE_PATTERN));
	if (lookup->pattern_kind != ZARIS_PATTERN_NONE)
		lookup->pattern = ExecInitExpr(lfirst(expression), planstate);
	lookup->values_context = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw lookup", ALLOCSET_SMALL_SIZES);
	lookup->scratch = AllocSetContextCreate(CurrentMemoryContext, "zaris_fdw lookup key", ALLOCSET_SMALL_SIZES);
	lookup->row = palloc0(table->n_columns * sizeof(Datum));
	lookup->finished = true; /* until it is evaluated */
	return lookup;
}

/* evaluating */

static uint32
hash_text(const void *key, Size size)
{
	const ZarisBytes *text = key;

	return hash_bytes((const unsigned char *) text->data, (int) text->len);
}

static int
compare_text(const void *a, const void *b, Size size)
{
	const ZarisBytes *left = a;
	const ZarisBytes *right = b;

	return left->len == right->len ? memcmp(left->data, right->data, left->len) : 1;
}

static HTAB *
create_seen(MemoryContext context, long n_expected)
{
	HASHCTL control = {0};

	control.keysize = sizeof(ZarisBytes);
	control.entrysize = sizeof(ZarisBytes);
	control.hash = hash_text;
	control.match = compare_text;
	control.hcxt = context;
	return hash_create("zaris_fdw lookup values", Max(256, n_expected), &control,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

/* Whether a text is new; remembers it, in place. */
static bool
is_new_text(HTAB *seen, StringInfo text)
{
	ZarisBytes key = {text->data, text->len};
	bool	   found;

	hash_search(seen, &key, HASH_ENTER, &found);
	if (found)
		pfree(text->data);
	return !found;
}

static bool
is_new_value(LookupColumn *column, Datum value)
{
	StringInfoData text;

	initStringInfo(&text);
	zaris_canonical_append(column->column, value, &text);
	return is_new_text(column->seen, &text);
}

/* Integers of another width are taken by value. */
static bool
convert_integer(Oid to, Oid from, Datum *value)
{
	int64 number;

	if (from == INT2OID)
		number = DatumGetInt16(*value);
	else
		number = from == INT4OID ? DatumGetInt32(*value) : DatumGetInt64(*value);
	switch (to)
	{
		case INT2OID:
			*value = Int16GetDatum((int16) number);
			return number >= PG_INT16_MIN && number <= PG_INT16_MAX;
		case INT4OID:
			*value = Int32GetDatum((int32) number);
			return number >= PG_INT32_MIN && number <= PG_INT32_MAX;
		default:
			*value = Int64GetDatum(number);
			return true;
	}
}

/* text where a name is wanted */
static bool
convert_to_name(Datum *value)
{
	text *from = DatumGetTextPP(*value);
	Name  to;

	if (VARSIZE_ANY_EXHDR(from) >= NAMEDATALEN)
		return false;
	to = palloc0(NAMEDATALEN);
	memcpy(NameStr(*to), VARDATA_ANY(from), VARSIZE_ANY_EXHDR(from));
	*value = NameGetDatum(to);
	return true;
}

/* A value that quals.c let pass becomes one of the column's type. False: the column cannot hold it, so no row has it. */
static bool
convert_value(const ZarisColumn *column, Oid type, Datum *value)
{
	if (type == column->base_type)
		return true;
	if (column->codec == ZARIS_CODEC_INTEGER)
		return convert_integer(column->base_type, type, value);
	if (column->base_type == NAMEOID)
		return convert_to_name(value);
	if (type == NAMEOID)
		*value = PointerGetDatum(cstring_to_text(NameStr(*DatumGetName(*value))));
	return true; /* text and varchar are the same inside */
}

static void
append_value(LookupColumn *column, Datum value)
{
	if (column->n_values == column->n_allocated)
	{
		column->n_allocated = Max(8, column->n_allocated * 2);
		if (column->values == NULL)
			column->values = palloc(column->n_allocated * sizeof(Datum));
		else
			column->values = repalloc_huge(column->values, column->n_allocated * sizeof(Datum));
	}
	column->values[column->n_values++] = value;
}

/* Runs in values_context, where `value` already lives. */
static void
add_value(LookupColumn *column, Oid type, Datum value)
{
	if (!convert_value(column->column, type, &value))
		return;

	/* a lone value, the common case, needs no book of what was seen */
	if (column->n_values == 1 && column->seen == NULL)
	{
		column->seen = create_seen(CurrentMemoryContext, column->n_expected);
		(void) is_new_value(column, column->values[0]);
	}
	if (column->seen == NULL || is_new_value(column, value))
		append_value(column, value);
}

static void
add_array(LookupColumn *column, Datum value)
{
	ArrayType *array = DatumGetArrayTypePCopy(value);
	Oid		   element = ARR_ELEMTYPE(array);
	int16	   length;
	bool	   by_value;
	char	   align;
	Datum	  *values;
	bool	  *nulls;
	int		   n;

	get_typlenbyvalalign(element, &length, &by_value, &align);
	deconstruct_array(array, element, length, by_value, align, &values, &nulls, &n);
	column->n_expected += n;
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			add_value(column, getBaseType(element), values[i]);
	}
}

static void
evaluate_source(ZarisLookup *lookup, LookupColumn *column, LookupSource *source, ExprContext *econtext)
{
	bool		  is_null;
	Datum		  value = ExecEvalExprSwitchContext(source->state, econtext, &is_null);
	MemoryContext caller;

	if (is_null)
		return; /* equal to nothing */
	caller = MemoryContextSwitchTo(lookup->values_context);
	if (source->is_array)
		add_array(column, value);
	else
	{
		int16 length;
		bool  by_value;

		get_typlenbyval(source->type, &length, &by_value);
		add_value(column, source->type, datumCopy(value, by_value, length));
	}
	MemoryContextSwitchTo(caller);
}

/* One tuple's values, in values_context; false when one is NULL or cannot be a key's. */
static bool
evaluate_tuple(ZarisLookup *lookup, int n, Datum *values, ExprContext *econtext)
{
	for (int i = 0; i < lookup->n_columns; i++)
	{
		const LookupColumn *column = &lookup->columns[i];
		const LookupSource *source = &column->sources[n];
		bool				is_null;
		Datum				value = ExecEvalExprSwitchContext(source->state, econtext, &is_null);
		int16				length;
		bool				by_value;

		if (is_null)
			return false;
		get_typlenbyval(source->type, &length, &by_value);
		values[i] = datumCopy(value, by_value, length);
		if (!convert_value(column->column, source->type, &values[i]))
			return false;
		lookup->row[column->column->attnum - 1] = values[i];
	}
	return true;
}

/* The tuples that can be keys, each once; the columns' values stay in step. */
static void
evaluate_tuples(ZarisLookup *lookup, ExprContext *econtext)
{
	MemoryContext caller = MemoryContextSwitchTo(lookup->values_context);
	int			  n = lookup->columns[0].n_sources;
	HTAB		 *seen = create_seen(lookup->values_context, n);
	Datum		 *values = palloc(lookup->n_columns * sizeof(Datum));

	for (int j = 0; j < n; j++)
	{
		StringInfoData key;

		if (!evaluate_tuple(lookup, j, values, econtext))
			continue;
		initStringInfo(&key);
		zaris_key_format(lookup->table, lookup->row, NULL, &key);

		/* of two tuples that make the same key, only one is what the key parses to */
		if (!zaris_key_is_exact(lookup->table, lookup->row, (ZarisBytes){key.data, key.len}) || !is_new_text(seen, &key))
			continue;
		for (int i = 0; i < lookup->n_columns; i++)
			append_value(&lookup->columns[i], values[i]);
	}
	lookup->finished = lookup->columns[0].n_values == 0;
	MemoryContextSwitchTo(caller);
}

/* What a LIKE pattern lets a text begin with: up to the first wildcard, escapes taken off. */
static int
fixed_part(char *pattern, int len)
{
	int n = 0;

	for (int i = 0; i < len; i++)
	{
		if (pattern[i] == '%' || pattern[i] == '_')
			break;
		if (pattern[i] == '\\' && ++i == len)
			break;
		pattern[n++] = pattern[i];
	}
	return n;
}

static void
evaluate_pattern(ZarisLookup *lookup, ExprContext *econtext)
{
	bool		  is_null;
	Datum		  value;
	MemoryContext caller;

	lookup->fixed_len = 0;
	lookup->no_match = false;
	if (lookup->pattern == NULL)
		return;
	value = ExecEvalExprSwitchContext(lookup->pattern, econtext, &is_null);
	lookup->no_match = is_null;
	if (is_null)
		return;
	caller = MemoryContextSwitchTo(lookup->values_context);
	lookup->fixed = TextDatumGetCString(value);
	lookup->fixed_len = strlen(lookup->fixed);
	if (lookup->pattern_kind == ZARIS_PATTERN_LIKE)
		lookup->fixed_len = fixed_part(lookup->fixed, lookup->fixed_len);
	MemoryContextSwitchTo(caller);
}

void
zaris_lookup_evaluate(ZarisLookup *lookup, ExprContext *econtext)
{
	MemoryContextReset(lookup->values_context);
	lookup->finished = false;
	for (int i = 0; i < lookup->n_columns; i++)
	{
		LookupColumn *column = &lookup->columns[i];

		column->n_values = column->n_allocated = column->at = 0;
		column->values = NULL;
		column->seen = NULL;
		column->n_expected = 0;
		for (int j = 0; j < column->n_sources && !lookup->are_tuples; j++)
			evaluate_source(lookup, column, &column->sources[j], econtext);
		if (column->n_values == 0)
			lookup->finished = true;
	}
	if (lookup->are_tuples)
		evaluate_tuples(lookup, econtext);
	evaluate_pattern(lookup, econtext);
	if (lookup->no_match)
		lookup->finished = true;
}

/* keys */

/* Turn the odometer by one (all wheels at once for tuples); past its end the lookup is finished. */
static void
advance(ZarisLookup *lookup)
{
	if (lookup->are_tuples)
	{
		for (int i = 0; i < lookup->n_columns; i++)
			lookup->columns[i].at++;
		lookup->finished = lookup->columns[0].at == lookup->columns[0].n_values;
		return;
	}
	for (int i = lookup->n_columns - 1; i >= 0; i--)
	{
		LookupColumn *column = &lookup->columns[i];

		if (++column->at < column->n_values)
			return;
		column->at = 0;
	}
	lookup->finished = true;
}

/* The key at the odometer's position; false when no row can have it. */
static bool
format_position(ZarisLookup *lookup, StringInfo key)
{
	MemoryContext caller = MemoryContextSwitchTo(lookup->scratch);
	bool		  exact;

	for (int i = 0; i < lookup->n_columns; i++)
	{
		const LookupColumn *column = &lookup->columns[i];

		lookup->row[column->column->attnum - 1] = column->values[column->at];
	}
	resetStringInfo(key);
	zaris_key_format(lookup->table, lookup->row, NULL, key);
	exact = zaris_key_is_exact(lookup->table, lookup->row, (ZarisBytes){key->data, key->len});
	MemoryContextSwitchTo(caller);
	MemoryContextReset(lookup->scratch);
	return exact;
}

bool
zaris_lookup_next(ZarisLookup *lookup, StringInfo key)
{
	bool exact;

	Assert(lookup->n_columns == lookup->table->n_key_columns);
	while (!lookup->finished)
	{
		exact = format_position(lookup, key);
		advance(lookup);
		if (exact)
			return true;
		CHECK_FOR_INTERRUPTS(); /* a long product of which no key can be a row */
	}
	return false;
}

/* The prefix of the values of the odometer's present position, for the first n columns. */
static bool
append_position(ZarisLookup *lookup, int n, StringInfo prefix)
{
	Datum known[MaxHeapAttributeNumber];

	for (int i = 0; i < n; i++)
		known[i] = lookup->columns[i].values[lookup->columns[i].at];
	return zaris_key_prefix(lookup->table, known, n, prefix);
}

/*
 * Column n has several values: what all their prefixes have in common.  One walk of the keyspace with a shorter
 * prefix is cheaper than a walk for each value.  Values that no key can have drop out.
 */
static bool
append_common(ZarisLookup *lookup, int n, StringInfo prefix)
{
	LookupColumn  *column = &lookup->columns[n];
	int			   start = prefix->len;
	int			   common = -1;
	StringInfoData other;

	initStringInfo(&other);
	for (column->at = 0; column->at < column->n_values; column->at++)
	{
		int same = 0;

		resetStringInfo(&other);
		if (!append_position(lookup, n + 1, &other))
			continue;
		if (common < 0)
		{
			appendBinaryStringInfo(prefix, other.data, other.len);
			common = other.len;
			continue;
		}
		while (same < common && same < other.len && prefix->data[start + same] == other.data[same])
			same++;
		common = same;
	}
	column->at = 0;
	pfree(other.data);
	if (common < 0)
		return false;
	prefix->len = start + common;
	prefix->data[prefix->len] = '\0';
	return true;
}

bool
zaris_lookup_prefix(ZarisLookup *lookup, StringInfo prefix)
{
	int n = 0;

	if (lookup->finished)
		return false;
	while (n < lookup->n_columns && lookup->columns[n].n_values == 1)
		n++;
	if (n < lookup->n_columns)
		return append_common(lookup, n, prefix);
	if (!append_position(lookup, n, prefix))
		return false;
	appendBinaryStringInfo(prefix, lookup->fixed, lookup->fixed_len);
	return true;
}
