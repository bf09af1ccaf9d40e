/*
 * key.c
 *	  Keys out of columns, and columns out of keys, by the table's template.
 *
 * Everything here serves I12: a key belongs to a table if and only if formatting its parsed columns gives the same
 * bytes.  Splitting is unambiguous (first occurrence of the next literal; the last column takes the rest), and each
 * column's text has one spelling (canonical.h), so a key that parses formats to itself.  The way back is not a
 * given: ('a:b', 'c') under '<x>:<y>' formats to a:b:c, which parses to ('a', 'b:c').  zaris_key_is_exact tells.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fdw/canonical.h"
#include "fdw/table.h"

ZarisBytes
zaris_table_prefix(const ZarisTable *table)
{
	if (table->parts[0].column == NULL)
		return table->parts[0].literal;
	return (ZarisBytes){"", 0};
}

void
zaris_key_format(const ZarisTable *table, const Datum *values, const bool *nulls, StringInfo key)
{
	for (int i = 0; i < table->n_parts; i++)
	{
		const ZarisTemplatePart *part = &table->parts[i];
		int						 index;

		if (part->column == NULL)
		{
			appendBinaryStringInfo(key, part->literal.data, (int) part->literal.len);
			continue;
		}
		index = part->column->attnum - 1;
		if (nulls != NULL && nulls[index])
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in key column \"%s\" of foreign table \"%s\"",
							part->column->name, table->name),
					 errdetail("A key is made of all its columns.")));
		zaris_canonical_append(part->column, values[index], key);
	}
}

/* Where the literal begins in text, or NULL. */
static const char *
find_literal(ZarisBytes literal, const char *text, const char *end)
{
	const char *at = text;

	while ((size_t) (end - at) >= literal.len)
	{
		at = memchr(at, literal.data[0], (end - at) - literal.len + 1);
		if (at == NULL)
			return NULL;
		if (memcmp(at, literal.data, literal.len) == 0)
			return at;
		at++;
	}
	return NULL;
}

/*
 * Where the text of a column that part i stands for ends.  Behind the template's last column only the literal that
 * ends the template is left, so there the column takes whatever stands before it.
 */
static const char *
column_end(const ZarisTable *table, int i, const char *text, const char *end)
{
	ZarisBytes literal;

	if (i == table->n_parts - 1)
		return end;
	literal = table->parts[i + 1].literal;
	if (i < table->n_parts - 2)
		return find_literal(literal, text, end);
	if ((size_t) (end - text) < literal.len || memcmp(end - literal.len, literal.data, literal.len) != 0)
		return NULL;
	return end - literal.len;
}

bool
zaris_key_prefix(const ZarisTable *table, const Datum *known, int n_known, StringInfo prefix)
{
	int n_seen = 0;
	int start = 0;

	for (int i = 0; i < table->n_parts; i++)
	{
		const ZarisTemplatePart *part = &table->parts[i];

		if (part->column != NULL)
		{
			if (n_seen == n_known)
				return true;
			start = prefix->len;
			zaris_canonical_append(part->column, known[n_seen++], prefix);
			continue;
		}
		appendBinaryStringInfo(prefix, part->literal.data, (int) part->literal.len);

		/* would the text end here when such a key is parsed? */
		if (i > 0 && i < table->n_parts - 1 &&
			find_literal(part->literal, prefix->data + start, prefix->data + prefix->len) !=
				prefix->data + prefix->len - part->literal.len)
			return false;
	}
	return true;
}

/* Cut a key into its columns' texts, by key column index. False: it does not have the template's form. */
static bool
split_key(const ZarisTable *table, ZarisBytes key, ZarisBytes *texts)
{
	const char *at = key.data;
	const char *end = key.data + key.len;

	for (int i = 0; i < table->n_parts; i++)
	{
		const ZarisTemplatePart *part = &table->parts[i];

		if (part->column == NULL)
		{
			if ((size_t) (end - at) < part->literal.len || memcmp(at, part->literal.data, part->literal.len) != 0)
				return false;
			at += part->literal.len;
		}
		else
		{
			const char *stop = column_end(table, i, at, end);

			if (stop == NULL)
				return false;
			texts->data = at;
			texts->len = stop - at;
			texts++;
			at = stop;
		}
	}
	return at == end;
}

bool
zaris_key_parse(const ZarisTable *table, ZarisBytes key, Datum *values)
{
	ZarisBytes texts[MaxHeapAttributeNumber];

	if (!split_key(table, key, texts))
		return false;
	for (int i = 0; i < table->n_key_columns; i++)
	{
		const ZarisColumn *column = table->key_columns[i];

		if (!zaris_canonical_parse(column, texts[i].data, texts[i].len, &values[column->attnum - 1]))
			return false;
	}
	return true;
}

/* One column that takes every value of its type: nothing stands beside it in the key that could be taken for it. */
static bool
is_always_exact(const ZarisTable *table)
{
	const ZarisColumn *column = table->key_columns[0];

	return table->n_key_columns == 1 && column->domain == NULL &&
		   (column->codec == ZARIS_CODEC_INTEGER || column->codec == ZARIS_CODEC_UUID);
}

bool
zaris_key_is_exact(const ZarisTable *table, const Datum *values, ZarisBytes key)
{
	ZarisBytes	   texts[MaxHeapAttributeNumber];
	StringInfoData text;
	bool		   exact = true;

	if (is_always_exact(table))
		return true;
	if (!split_key(table, key, texts))
		return false;
	initStringInfo(&text);
	for (int i = 0; exact && i < table->n_key_columns; i++)
	{
		const ZarisColumn *column = table->key_columns[i];
		Datum			   parsed;

		resetStringInfo(&text);
		zaris_canonical_append(column, values[column->attnum - 1], &text);

		/* the same bytes, and such that the column takes them (its domain or length may not) */
		exact = (size_t) text.len == texts[i].len && memcmp(text.data, texts[i].data, texts[i].len) == 0 &&
				zaris_canonical_parse(column, texts[i].data, texts[i].len, &parsed);
	}
	pfree(text.data);
	return exact;
}
