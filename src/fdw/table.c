/*
 * table.c
 *	  What a foreign table's options and columns mean together.
 *
 * The validator sees one object's options at a time; what needs the columns as well is checked here, whenever the
 * table is used: that the template's columns exist and have a type with one spelling, that the layout fits, that
 * roles are given once.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fdw/canonical.h"
#include "fdw/options.h"
#include "fdw/table.h"
#include "fdw/template.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#define DEFAULT_FETCH_SIZE 1000
#define DEFAULT_BATCH_SIZE 1000

/* What the catalog says of one column's purpose. */
typedef struct ColumnOptions
{
	const char *role; /* or NULL */
	const char *field;
} ColumnOptions;

static ZarisBytes
bytes_of(const char *text)
{
	return (ZarisBytes){text, strlen(text)};
}

/*
 * Most types never need their functions (codec.c), and a table is opened for each execution: they are looked up late.
 */
FmgrInfo *
zaris_column_input(const ZarisColumn *column)
{
	ZarisColumn *mine = unconstify(ZarisColumn *, column);
	Oid			 function;

	if (!OidIsValid(mine->input.fn_oid))
	{
		getTypeInputInfo(column->type, &function, &mine->input_ioparam);
		fmgr_info_cxt(function, &mine->input, column->context);
	}
	return &mine->input;
}

FmgrInfo *
zaris_column_output(const ZarisColumn *column)
{
	ZarisColumn *mine = unconstify(ZarisColumn *, column);
	Oid			 function;
	bool		 is_varlena;

	if (!OidIsValid(mine->output.fn_oid))
	{
		getTypeOutputInfo(column->type, &function, &is_varlena);
		fmgr_info_cxt(function, &mine->output, column->context);
	}
	return &mine->output;
}

static bool type_reads_session(Oid type);

static bool
composite_reads_session(Oid type)
{
	TupleDesc description = lookup_rowtype_tupdesc(type, -1);
	bool	  reads = false;

	for (int i = 0; i < description->natts && !reads; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(description, i);

		reads = !attribute->attisdropped && type_reads_session(attribute->atttypid);
	}
	ReleaseTupleDesc(description);
	return reads;
}

static bool
type_reads_session(Oid type)
{
	Oid base = getBaseType(type);
	Oid inner;

	switch (base)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case XMLOID:
		case MONEYOID:
			return true;
	}
	inner = get_element_type(base);
	if (!OidIsValid(inner))
		inner = get_range_subtype(base);
	if (!OidIsValid(inner))
		inner = get_multirange_range(base);
	if (OidIsValid(inner))
		return type_reads_session(inner);
	return get_typtype(base) == TYPTYPE_COMPOSITE && composite_reads_session(base);
}

bool
zaris_column_reads_session(const ZarisColumn *column)
{
	ZarisColumn *mine = unconstify(ZarisColumn *, column);

	if (mine->reads_session == 0)
		mine->reads_session = type_reads_session(column->type) ? 1 : -1;
	return mine->reads_session > 0;
}

/* The type's side of a column. */
static void
describe_type(ZarisColumn *column)
{
	column->base_type = getBaseTypeAndTypmod(column->type, &column->typmod);
	column->codec = zaris_canonical_kind(column->base_type);
	if (column->base_type != column->type)
		column->domain = zaris_canonical_domain(column->type);
	column->context = CurrentMemoryContext;
}

static ZarisColumn *
find_column(ZarisTable *table, const char *name)
{
	for (int i = 0; i < table->n_columns; i++)
	{
		ZarisColumn *column = &table->columns[i];

		if (column->name != NULL && strcmp(column->name, name) == 0)
			return column;
	}
	return NULL;
}

static void
require_key_type(const ZarisTable *table, const ZarisColumn *column)
{
	/* char(n) is compared without its trailing blanks, so one value would have many keys */
	if (column->codec != ZARIS_CODEC_OTHER && column->base_type != BPCHAROID)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
			 errmsg("column \"%s\" of foreign table \"%s\" cannot be part of a key: its type is %s",
					column->name, table->name, format_type_be(column->type)),
			 errhint("Key columns may be text, varchar, smallint, integer, bigint, uuid, bytea, boolean, date, "
					 "timestamptz, enums, and domains over them.")));
}

/* The template's words become parts, and its columns key columns. */
static void
read_template(ZarisTable *table, const char *template)
{
	const char *problem = NULL;
	List	   *words = zaris_template_words(template, &problem);
	ListCell   *cell;

	if (words == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"key\" of foreign table \"%s\" is not a key template", table->name),
				 errdetail("%s", problem)));
	table->parts = palloc0(list_length(words) * sizeof(ZarisTemplatePart));
	table->key_columns = palloc0(list_length(words) * sizeof(ZarisColumn *));
	foreach (cell, words)
	{
		ZarisTemplateWord *word = lfirst(cell);
		ZarisTemplatePart *part = &table->parts[table->n_parts++];

		if (!word->is_column)
		{
			part->literal = (ZarisBytes){word->text, word->len};
			continue;
		}
		part->column = find_column(table, word->text);
		if (part->column == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
					 errmsg("foreign table \"%s\" has no column \"%s\", which its key template names",
							table->name, word->text),
					 errhint("A literal \"<\" is written \"<<\".")));
		require_key_type(table, part->column);
		part->column->role = ZARIS_COLUMN_KEY;
		table->key_columns[table->n_key_columns++] = part->column;
	}
}

/* The role of a column that is not part of the key: as said, else by its name, else the layout's. */
static ZarisColumnRole
find_role(const ZarisTable *table, const ZarisColumn *column, const char *said)
{
	const char *role = said != NULL ? said : column->name;

	if (strcmp(role, "version") == 0)
		return ZARIS_COLUMN_VERSION;
	if (strcmp(role, "expires_at") == 0)
		return ZARIS_COLUMN_EXPIRES_AT;
	return table->layout == ZARIS_LAYOUT_HASH ? ZARIS_COLUMN_FIELD : ZARIS_COLUMN_VALUE;
}

static void
require_type(const ZarisTable *table, const ZarisColumn *column, Oid type)
{
	if (column->base_type == type)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
			 errmsg("column \"%s\" of foreign table \"%s\" must be of type %s, not %s",
					column->name, table->name, format_type_be(type), format_type_be(column->type)),
			 errhint("Columns named version or expires_at have these roles unless the column's option role says 'value'.")));
}

/* Enter a column that may be there once. */
static void
set_once(const ZarisTable *table, ZarisColumn **place, ZarisColumn *column, const char *what)
{
	if (*place != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_COLUMN_NAME),
				 errmsg("foreign table \"%s\" has two %s columns, \"%s\" and \"%s\"",
						table->name, what, (*place)->name, column->name),
				 strcmp(what, "value") == 0 ? errhint("Layout 'string' has one value column; layout 'hash' has one column a field.") : 0));
	*place = column;
}

static void
add_field(ZarisTable *table, ZarisColumn *column, const char *field)
{
	column->field = bytes_of(field != NULL ? field : column->name);
	for (int i = 0; i < table->n_fields; i++)
	{
		const ZarisBytes other = table->fields[i]->field;

		if (other.len == column->field.len && memcmp(other.data, column->field.data, other.len) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_COLUMN_NAME),
					 errmsg("columns \"%s\" and \"%s\" of foreign table \"%s\" name the same field",
							table->fields[i]->name, column->name, table->name)));
	}
	table->fields[table->n_fields++] = column;
}

/* An option of a column that has no meaning for it is an error, not a silence. */
static void
refuse_column_option(const ZarisTable *table, const ZarisColumn *column, const char *option, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("option \"%s\" does not fit column \"%s\" of foreign table \"%s\"",
					option, column->name, table->name),
			 errdetail("%s", why)));
}

static void
assign_role(ZarisTable *table, ZarisColumn *column, const ColumnOptions *options)
{
	if (column->role == ZARIS_COLUMN_KEY)
	{
		if (options->role != NULL)
			refuse_column_option(table, column, "role", "The column is part of the key.");
		if (options->field != NULL)
			refuse_column_option(table, column, "field", "The column is part of the key.");
		return;
	}
	column->role = find_role(table, column, options->role);
	if (options->field != NULL && column->role != ZARIS_COLUMN_FIELD)
		refuse_column_option(table, column, "field", "Only columns of layout 'hash' that hold a value have a field.");
	switch (column->role)
	{
		case ZARIS_COLUMN_VERSION:
			require_type(table, column, INT8OID);
			set_once(table, &table->version, column, "version");
			break;
		case ZARIS_COLUMN_EXPIRES_AT:
			require_type(table, column, TIMESTAMPTZOID);
			set_once(table, &table->expires_at, column, "expires_at");
			break;
		case ZARIS_COLUMN_VALUE:
			set_once(table, &table->value, column, "value");
			break;
		default:
			add_field(table, column, options->field);
			break;
	}
}

/*
 * Generated columns would have to be computed when existing records are read, which no foreign table does; to give
 * NULL for them would be a wrong answer.
 */
static void
refuse_generated(const ZarisTable *table, Form_pg_attribute attribute)
{
	if (attribute->attgenerated == '\0')
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("foreign table \"%s\" cannot have the generated column \"%s\"",
					table->name, NameStr(attribute->attname)),
			 errhint("Compute it in a view over the table.")));
}

static void
read_columns(ZarisTable *table, TupleDesc descriptor)
{
	table->n_columns = descriptor->natts;
	table->columns = palloc0(descriptor->natts * sizeof(ZarisColumn));
	table->fields = palloc0(descriptor->natts * sizeof(ZarisColumn *));
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);
		ZarisColumn		 *column = &table->columns[i];

		column->attnum = attribute->attnum;
		if (attribute->attisdropped)
			continue; /* no name, role NONE */
		refuse_generated(table, attribute);
		column->name = pstrdup(NameStr(attribute->attname));
		column->type = attribute->atttypid;
		column->typmod = attribute->atttypmod;
		column->collation = attribute->attcollation;
		column->not_null = attribute->attnotnull;
		describe_type(column);
	}
}

static void
read_roles(ZarisTable *table)
{
	for (int i = 0; i < table->n_columns; i++)
	{
		ZarisColumn	 *column = &table->columns[i];
		ColumnOptions options;
		List		 *list;

		if (column->name == NULL)
			continue;
		list = GetForeignColumnOptions(table->relid, column->attnum);
		options.role = zaris_option_text(list, "role");
		options.field = zaris_option_text(list, "field");
		assign_role(table, column, &options);
	}
	if (table->layout == ZARIS_LAYOUT_STRING && table->value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_COLUMN_NAME),
				 errmsg("foreign table \"%s\" has no value column", table->name),
				 errhint("Layout 'string' has one column that is neither part of the key nor version nor expires_at.")));
}

/* A table's option, else its server's, else the fallback. */
static int
find_integer(List *table, List *server, const char *name, int fallback)
{
	return zaris_option_integer(zaris_option_text(table, name) != NULL ? table : server, name, fallback);
}

ZarisTable *
zaris_table_open(Relation relation)
{
	ForeignTable *foreign = GetForeignTable(RelationGetRelid(relation));
	ZarisTable	 *table = palloc0(sizeof(*table));
	const char *template = zaris_option_text(foreign->options, "key");
	const char *layout = zaris_option_text(foreign->options, "layout");
	List	   *server;

	table->relid = foreign->relid;
	table->serverid = foreign->serverid;
	table->name = pstrdup(RelationGetRelationName(relation));
	if (layout != NULL && strcmp(layout, "hash") == 0)
	{
		table->layout = ZARIS_LAYOUT_HASH;
		table->record = ZARIS_RECORD_HASH;
	}
	if (template == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
				 errmsg("foreign table \"%s\" has no option \"key\"", table->name),
				 errhint("It is a template such as 'session:<id>', with a column's name in angle brackets.")));
	read_columns(table, RelationGetDescr(relation));
	read_template(table, template);
	read_roles(table);
	server = GetForeignServer(foreign->serverid)->options;
	table->fetch_size = find_integer(foreign->options, server, "fetch_size", DEFAULT_FETCH_SIZE);
	table->batch_size = find_integer(foreign->options, server, "batch_size", DEFAULT_BATCH_SIZE);
	table->read_only = zaris_option_boolean(foreign->options, "read_only", false);
	return table;
}
