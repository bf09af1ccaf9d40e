/*
 * explain.c
 *	  What EXPLAIN says of reads and writes.
 *
 *		Foreign Scan on orders
 *		  Operation: Scan
 *		  Key: order:<customer>:*
 *		  Bound: customer = 17
 *		  Fetches: fields total, state, version
 *
 * A key pattern shows the bound columns by name, and * for what is open.
 */
#include "postgres.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "fdw/direct.h"
#include "fdw/explain.h"
#include "fdw/fetch.h"
#include "fdw/modify.h"
#include "fdw/plan.h"
#include "fdw/scan.h"
#include "fdw/table.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#define LITERAL_IN_PATTERN 200 /* characters of a template's literal that are shown */

/* Whether the keys are given by single values only. */
static bool
is_one_key(List *bindings)
{
	ListCell *cell;

	foreach (cell, bindings)
	{
		List *is_array = lfirst(cell);

		if (list_length(is_array) != 1 || linitial_int(is_array) != 0)
			return false;
	}
	return true;
}

static const char *
operation_text(List *private)
{
	if (intVal(list_nth(private, ZARIS_PRIVATE_OPERATION)) == ZARIS_SCAN_SCAN)
		return "Scan";
	return is_one_key(list_nth(private, ZARIS_PRIVATE_BINDINGS)) ? "Get" : "Get many";
}

/* The template with its first n_bound columns; everything behind them is open. */
static char *
key_pattern(const ZarisTable *table, int n_bound)
{
	StringInfoData pattern;
	int			   n_seen = 0;

	initStringInfo(&pattern);
	for (int i = 0; i < table->n_parts; i++)
	{
		const ZarisTemplatePart *part = &table->parts[i];

		if (part->column == NULL)
			appendStringInfoString(&pattern, zaris_printable(part->literal.data, part->literal.len, LITERAL_IN_PATTERN));
		else if (n_seen++ < n_bound)
			appendStringInfo(&pattern, "<%s>", part->column->name);
		else
		{
			appendStringInfoChar(&pattern, '*');
			break;
		}
	}
	return pattern.data;
}

/* "id = $1", "id = ANY (...)"; several expressions of one column are joined by OR. */
static void
append_binding(StringInfo text, const ZarisColumn *column, List *is_array, ListCell **expression, List *expressions,
			   List *context, bool prefix)
{
	ListCell *cell;

	foreach (cell, is_array)
	{
		char *value = deparse_expression(lfirst(*expression), context, prefix, false);

		if (text->len > 0)
			appendStringInfoString(text, foreach_current_index(cell) > 0 ? " OR " : ", ");
		if (lfirst_int(cell))
			appendStringInfo(text, "%s = ANY (%s)", column->name, value);
		else
			appendStringInfo(text, "%s = %s", column->name, value);
		*expression = lnext(expressions, *expression);
	}
}

/* "(a, b) IN ((1, 2), (3, 4))", "a IN (1, 2)" */
static void
append_tuples(StringInfo text, const ZarisTable *table, int n, List *expressions, List *context, bool prefix)
{
	const char *open = table->n_key_columns > 1 ? "(" : "";
	const char *close = table->n_key_columns > 1 ? ")" : "";

	for (int i = 0; i < table->n_key_columns; i++)
		appendStringInfo(text, "%s%s", i == 0 ? open : ", ", table->key_columns[i]->name);
	appendStringInfo(text, "%s IN (", close);
	for (int j = 0; j < n; j++)
	{
		appendStringInfoString(text, j == 0 ? "" : ", ");
		for (int i = 0; i < table->n_key_columns; i++)
			appendStringInfo(text, "%s%s", i == 0 ? open : ", ",
							 deparse_expression(list_nth(expressions, i * n + j), context, prefix, false));
		appendStringInfoString(text, close);
	}
	appendStringInfoChar(text, ')');
}

/*
 * The bound columns with their expressions, and the pattern.  PostgreSQL does not tell us the nodes above, so that
 * what an outer relation gives stands there as a parameter, $0.
 */
static char *
bound_text(const ZarisTable *table, Plan *plan, List *private, List *expressions, ExplainState *es)
{
	List		  *bindings = list_nth(private, ZARIS_PRIVATE_BINDINGS);
	int			   pattern = intVal(list_nth(private, ZARIS_PRIVATE_PATTERN));
	List		  *context = set_deparse_context_plan(es->deparse_cxt, plan, NIL);
	bool		   prefix = list_length(es->rtable) > 1 || es->verbose;
	ListCell	  *expression = list_head(expressions);
	ListCell	  *cell;
	StringInfoData text;

	initStringInfo(&text);
	if (intVal(list_nth(private, ZARIS_PRIVATE_OPERATION)) == ZARIS_SCAN_GET_TUPLES)
	{
		append_tuples(&text, table, list_length(linitial(bindings)), expressions, context, prefix);
		return text.data;
	}
	foreach (cell, bindings)
		append_binding(&text, table->key_columns[foreach_current_index(cell)], lfirst(cell), &expression,
					   expressions, context, prefix);
	if (pattern != ZARIS_PATTERN_NONE)
		appendStringInfo(&text, "%s%s %s %s", text.len > 0 ? ", " : "",
						 table->key_columns[list_length(bindings)]->name,
						 pattern == ZARIS_PATTERN_LIKE ? "LIKE" : "^@",
						 deparse_expression(lfirst(expression), context, prefix, false));
	return text.data;
}

/* VERBOSE: why the conditions under "Filter" are checked here, each reason once. */
static void
explain_reasons(List *reasons, ExplainState *es)
{
	List	 *distinct = NIL;
	ListCell *cell;
	ListCell *other;

	foreach (cell, reasons)
	{
		const char *reason = strVal(lfirst(cell));
		bool		known = false;

		foreach (other, distinct)
			known = known || strcmp(lfirst(other), reason) == 0;
		if (!known)
			distinct = lappend(distinct, unconstify(char *, reason));
	}
	if (distinct != NIL)
		ExplainPropertyList("Filtered Locally", distinct, es);
}

void
zaris_explain_keys(const ZarisTable *table, Plan *plan, List *private, List *expressions, ExplainState *es)
{
	List *bindings = list_nth(private, ZARIS_PRIVATE_BINDINGS);
	char *bound = bound_text(table, plan, private, expressions, es);

	ExplainPropertyText("Key", key_pattern(table, list_length(bindings)), es);
	if (bound[0] != '\0')
		ExplainPropertyText("Bound", bound, es);
}

void
zaris_explain_counts(const ZarisScanCounts *counts, ExplainState *es)
{
	ExplainPropertyUInteger("Requests", NULL, counts->requests, es);
	ExplainPropertyUInteger("Round Trips", NULL, counts->round_trips, es);
	ExplainPropertyUInteger("Bytes Received", NULL, counts->bytes, es);

	/* on an ordinary day these are zero, and a text reader need not see them */
	if (es->format != EXPLAIN_FORMAT_TEXT || counts->retries > 0)
		ExplainPropertyUInteger("Retries", NULL, counts->retries, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || counts->redirects > 0)
		ExplainPropertyUInteger("Redirects", NULL, counts->redirects, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || counts->skipped > 0)
		ExplainPropertyUInteger("Keys Skipped", NULL, counts->skipped, es);
}

void
zaris_explain_foreign_scan(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List *private = plan->fdw_private;
	ZarisTable *table = zaris_table_open(node->ss.ss_currentRelation);
	ZarisFetch *fetch = zaris_fetch_create(table, list_nth(private, ZARIS_PRIVATE_COLUMNS),
										   boolVal(list_nth(private, ZARIS_PRIVATE_HEADER)));

	ExplainPropertyText("Operation", operation_text(private), es);
	zaris_explain_keys(table, &plan->scan.plan, private, plan->fdw_exprs, es);
	ExplainPropertyText("Fetches", zaris_fetch_description(fetch), es);
	if (es->verbose)
		explain_reasons(list_nth(private, ZARIS_PRIVATE_REASONS), es);
	if (es->analyze)
	{
		ZarisScanCounts counts = zaris_scan_counts(node);

		zaris_explain_counts(&counts, es);
	}
}

/* Writes */

static void
explain_description(const ZarisModifyDescription *description, ExplainState *es)
{
	ExplainPropertyText("Operation", description->operation, es);
	if (es->verbose)
		ExplainPropertyInteger("Batch Size", NULL, description->batch_size, es);
	if (!description->has_counts)
		return;
	ExplainPropertyUInteger("Writes", NULL, description->writes, es);
	ExplainPropertyUInteger("Applied", NULL, description->applied, es);
	ExplainPropertyUInteger("Requests", NULL, description->attempts, es);
	ExplainPropertyUInteger("Waits", NULL, description->waits, es);
}

void
zaris_explain_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, int subplan_index,
							 ExplainState *es)
{
	ZarisModifyDescription description = {0};

	zaris_modify_describe(mtstate, rinfo, fdw_private, es->analyze, &description);
	explain_description(&description, es);
}

void
zaris_explain_direct_modify(ForeignScanState *node, ExplainState *es)
{
	ForeignScan			  *plan = (ForeignScan *) node->ss.ps.plan;
	ZarisModifyDescription description = {0};

	zaris_direct_describe(node, &description);
	explain_description(&description, es);
	zaris_explain_keys(zaris_table_open(node->ss.ss_currentRelation), &plan->scan.plan, zaris_direct_scan_private(plan),
					   plan->fdw_exprs, es);
}
