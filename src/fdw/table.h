/*
 * table.h
 *	  A foreign table as the wrapper sees it: key template, layout, what each column is.
 *
 * Template (option `key`): literal text and <column>; "<<" is a literal "<".  Between two columns there must be a
 * literal, since nothing else tells where one ends.  A column's text ends at the first occurrence of the literal behind
 * it; the last column takes the rest, up to the literal that ends the template, if one does.
 *
 * I12: a key belongs to a table if and only if formatting its parsed columns gives the same bytes.  So for any
 * column values a key can be asked for, but only if parsing that key gives the same values back is there a row.
 */
#ifndef ZARIS_FDW_TABLE_H
#define ZARIS_FDW_TABLE_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "client/operation.h"

typedef enum ZarisLayout
{
	ZARIS_LAYOUT_STRING, /* one value column */
	ZARIS_LAYOUT_HASH	 /* each field column is a hash field, NULL = missing */
} ZarisLayout;

typedef enum ZarisColumnRole
{
	ZARIS_COLUMN_NONE, /* dropped: not stored, not read */
	ZARIS_COLUMN_KEY,
	ZARIS_COLUMN_VALUE,		/* layout string: exactly one */
	ZARIS_COLUMN_FIELD,		/* layout hash */
	ZARIS_COLUMN_VERSION,	/* bigint */
	ZARIS_COLUMN_EXPIRES_AT /* timestamptz */
} ZarisColumnRole;

typedef enum ZarisCodecKind
{
	ZARIS_CODEC_TEXT,	 /* text, varchar, char(n), name ... : bytes of the type's text form, checked for the encoding */
	ZARIS_CODEC_BYTES,	 /* bytea: raw */
	ZARIS_CODEC_INTEGER, /* int2, int4, int8: decimal, canonical in keys */
	ZARIS_CODEC_BOOLEAN,
	ZARIS_CODEC_UUID,
	ZARIS_CODEC_DATE,
	ZARIS_CODEC_TIMESTAMPTZ,
	ZARIS_CODEC_ENUM,
	ZARIS_CODEC_OTHER /* any type with text input and output; not for keys */
} ZarisCodecKind;

typedef struct ZarisColumn
{
	AttrNumber			attnum;
	char			   *name;
	ZarisColumnRole		role;
	Oid					type;	   /* as declared */
	Oid					base_type; /* behind domains */
	int32				typmod;	   /* the base type's, behind domains */
	Oid					collation;
	bool				not_null;
	ZarisCodecKind		codec;
	struct ZarisDomain *domain;		   /* canonical.h; NULL when the type is no domain */
	ZarisBytes			field;		   /* FIELD: its name in the hash */
	MemoryContext		context;	   /* the table's */
	FmgrInfo			input, output; /* through zaris_column_input and _output only: filled in when first used */
	Oid					input_ioparam;
	signed char			reads_session; /* through zaris_column_reads_session only: 1 yes, -1 no, 0 not asked yet */
} ZarisColumn;

typedef struct ZarisTemplatePart
{
	ZarisBytes	 literal; /* when column is NULL */
	ZarisColumn *column;
} ZarisTemplatePart;

typedef struct ZarisTable
{
	Oid				   relid;
	Oid				   serverid;
	char			  *name; /* of the relation, unqualified */
	ZarisLayout		   layout;
	ZarisRecordKind	   record;
	int				   n_columns;
	ZarisColumn		  *columns; /* by attnum - 1 */
	int				   n_parts; /* columns and literals alternate; "" is never a part */
	ZarisTemplatePart *parts;
	int				   n_key_columns;
	ZarisColumn		 **key_columns; /* in template order */
	ZarisColumn		  *value;		/* or NULL */
	ZarisColumn		  *version;
	ZarisColumn		  *expires_at;
	int				   n_fields;
	ZarisColumn		 **fields;
	int				   fetch_size;
	int				   batch_size;
	bool			   read_only;
} ZarisTable;

/* Read a relation's options and columns; palloc'd in the current context. Raises what is wrong, with column and hint. */
extern ZarisTable *zaris_table_open(Relation relation);

/* The declared type's functions; input checks domains and typmods. */
extern FmgrInfo *zaris_column_input(const ZarisColumn *column);
extern FmgrInfo *zaris_column_output(const ZarisColumn *column);

/*
 * Whether the type's text form depends on settings that other types do not know: names of objects (regclass and the
 * like) on search_path, xml on xmloption, money on lc_monetary; also inside arrays, ranges, domains and composites.
 */
extern bool zaris_column_reads_session(const ZarisColumn *column);

/* Check a template's form only: no columns yet. False: *problem is a static sentence. */
extern bool zaris_template_check(const char *text, const char **problem);

/* The literal bytes every key of the table begins with. */
extern ZarisBytes zaris_table_prefix(const ZarisTable *table);

/*
 * The key of a row. values and nulls are by attnum - 1. Raises 23502 for a NULL, 22P05/22021 for what a key cannot
 * hold.  The key is appended to *key.
 */
extern void zaris_key_format(const ZarisTable *table, const Datum *values, const bool *nulls, StringInfo key);

/*
 * Like zaris_key_format for the first n_known key columns, then the literal behind them: a prefix of all matching
 * keys. known values are given by key column index.  False: no key can have these values (one contains the literal
 * that would end it).
 */
extern bool zaris_key_prefix(const ZarisTable *table, const Datum *known, int n_known, StringInfo prefix);

/*
 * Take a key apart into values[] (by attnum - 1; only key columns are touched; palloc'd in the current context).
 * False: the key is none of the table's. Never raises for what a key contains.
 */
extern bool zaris_key_parse(const ZarisTable *table, ZarisBytes key, Datum *values);

/* Whether parsing the formatted key of these values gives the same key columns (by bytes) back: else there can be no such row. */
extern bool zaris_key_is_exact(const ZarisTable *table, const Datum *values, ZarisBytes key);

#endif /* ZARIS_FDW_TABLE_H */
