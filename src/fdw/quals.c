/*
 * quals.c
 *	  Which clauses of a query say what a table's keys are.
 *
 * A clause is understood or not; there is no half.  What is understood is checked for everything that could make
 * "equal" mean something else than "the same bytes of key": the operator's family, the collation, the types.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "fdw/quals.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* elements of an array that the planner cannot see into */
#define UNKNOWN_ARRAY_LENGTH 10

/* What binding a clause needs to know; also where the answer is collected. */
typedef struct BindContext
{
	PlannerInfo		 *root;
	RelOptInfo		 *rel;
	const ZarisTable *table;
	ZarisBinding	 *binding;
} BindContext;

static bool bind_expression(BindContext *context, Expr *clause);

/* The key column that an expression is, or -1.  Types that share their bytes (varchar, domains) are seen through. */
static int
match_key_column(const BindContext *context, Node *node)
{
	Var *var;

	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (node == NULL || !IsA(node, Var))
		return -1;
	var = (Var *) node;
	if (var->varno != context->rel->relid || var->varlevelsup != 0)
		return -1;
	for (int i = 0; i < context->table->n_key_columns; i++)
	{
		if (context->table->key_columns[i]->attnum == var->varattno)
			return i;
	}
	return -1;
}

/* A value that is known before the first row of this table is read, and stays the same. */
static bool
is_known_before(const BindContext *context, Node *value)
{
	return !bms_is_member(context->rel->relid, pull_varnos(context->root, value)) &&
		   !contain_subplans(value) &&
		   !contain_volatile_functions(value);
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Not char(n), whose blanks at the end do not count. */
static bool
is_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == NAMEOID;
}

/* Values of this type can be made into the column's text. */
static bool
fits_type(const ZarisColumn *column, Oid type)
{
	type = getBaseType(type);
	if (column->codec == ZARIS_CODEC_INTEGER)
		return is_integer(type);
	if (column->codec == ZARIS_CODEC_TEXT)
		return is_text(type);
	return type == column->base_type;
}

/* The equality of the column type's own btree family: citext's, say, has another. */
static bool
is_equality(const ZarisColumn *column, Oid operator)
{
	TypeCacheEntry *type = lookup_type_cache(column->base_type, TYPECACHE_BTREE_OPFAMILY);

	return OidIsValid(type->btree_opf) &&
		   get_op_opfamily_strategy(operator, type->btree_opf) == BTEqualStrategyNumber;
}

/* Under a nondeterministic collation different bytes may be equal. */
static bool
is_bytewise(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* Take a value of the column; false when the clause is about several columns. */
static bool
add_value(BindContext *context, int key_index, Expr *value, bool is_array, double n_values)
{
	ZarisBinding *binding = context->binding;

	if (binding->values != NIL && binding->key_index != key_index)
		return false;
	binding->key_index = key_index;
	binding->values = lappend(binding->values, value);
	binding->is_array = lappend_int(binding->is_array, is_array ? 1 : 0);
	binding->n_values += n_values;
	return true;
}

/* Where the wildcards of a LIKE pattern begin; the literal text before them goes to *fixed. True: there are none. */
static bool
split_pattern(const char *pattern, int len, StringInfo fixed)
{
	for (int i = 0; i < len; i++)
	{
		if (pattern[i] == '%' || pattern[i] == '_')
			return false;
		if (pattern[i] == '\\' && ++i == len)
			return false; /* LIKE itself will refuse it */
		appendStringInfoChar(fixed, pattern[i]);
	}
	return true;
}

/* A constant pattern: without wildcards it is an equality; if it begins with one it says nothing. */
static bool
bind_constant_pattern(BindContext *context, int key_index, Const *pattern)
{
	text		  *value = DatumGetTextPP(pattern->constvalue);
	StringInfoData fixed;
	Const		  *whole;

	initStringInfo(&fixed);
	if (!split_pattern(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &fixed))
		return fixed.len > 0 && add_value(context, key_index, (Expr *) pattern, false, 1);
	whole = makeConst(TEXTOID, -1, pattern->constcollid, -1,
					  PointerGetDatum(cstring_to_text_with_len(fixed.data, fixed.len)), false, false);
	context->binding->pattern = ZARIS_PATTERN_NONE;
	return add_value(context, key_index, (Expr *) whole, false, 1);
}

static bool
bind_pattern(BindContext *context, ZarisPatternKind kind, List *args, Oid collation)
{
	int	  key_index = match_key_column(context, linitial(args));
	Node *pattern = lsecond(args);
	Oid	  type;

	if (key_index < 0 || context->binding->values != NIL || !is_bytewise(collation))
		return false;
	type = context->table->key_columns[key_index]->base_type;
	if ((type != TEXTOID && type != VARCHAROID) || !is_known_before(context, pattern))
		return false;
	context->binding->pattern = kind;
	if (kind == ZARIS_PATTERN_LIKE && IsA(pattern, Const) && !((Const *) pattern)->constisnull)
		return bind_constant_pattern(context, key_index, (Const *) pattern);
	return add_value(context, key_index, (Expr *) pattern, false, 1);
}

/* By function: operators and calls alike. */
static ZarisPatternKind
pattern_kind(Oid function)
{
	switch (function)
	{
		case F_TEXTLIKE:
		case F_LIKE_TEXT_TEXT:
			return ZARIS_PATTERN_LIKE;
		case F_STARTS_WITH:
			return ZARIS_PATTERN_STARTS_WITH;
		default:
			return ZARIS_PATTERN_NONE;
	}
}

static bool
bind_operator(BindContext *context, OpExpr *clause)
{
	ZarisPatternKind pattern;
	Node			*left;
	Node			*right;
	int				 key_index;

	if (list_length(clause->args) != 2)
		return false;
	pattern = pattern_kind(get_opcode(clause->opno));
	if (pattern != ZARIS_PATTERN_NONE)
		return bind_pattern(context, pattern, clause->args, clause->inputcollid);

	left = linitial(clause->args);
	right = lsecond(clause->args);
	key_index = match_key_column(context, left);
	if (key_index < 0)
	{
		key_index = match_key_column(context, right);
		right = left;
	}
	if (key_index < 0 || !is_bytewise(clause->inputcollid) ||
		!is_equality(context->table->key_columns[key_index], clause->opno) ||
		!fits_type(context->table->key_columns[key_index], exprType(right)) ||
		!is_known_before(context, right))
		return false;
	return add_value(context, key_index, (Expr *) right, false, 1);
}

/* How many elements, about. */
static double
length_of_array(Node *array)
{
	while (IsA(array, RelabelType))
		array = (Node *) ((RelabelType *) array)->arg;
	if (IsA(array, ArrayExpr) && !((ArrayExpr *) array)->multidims)
		return list_length(((ArrayExpr *) array)->elements);
	if (IsA(array, Const))
	{
		ArrayType *value;

		if (((Const *) array)->constisnull)
			return 0;
		value = DatumGetArrayTypeP(((Const *) array)->constvalue);
		return ArrayGetNItems(ARR_NDIM(value), ARR_DIMS(value));
	}
	return UNKNOWN_ARRAY_LENGTH;
}

static bool
bind_array(BindContext *context, ScalarArrayOpExpr *clause)
{
	int	  key_index = match_key_column(context, linitial(clause->args));
	Node *array = lsecond(clause->args);
	Oid	  element;

	if (key_index < 0 || !clause->useOr || !is_bytewise(clause->inputcollid))
		return false;
	element = get_base_element_type(exprType(array));
	if (!OidIsValid(element) ||
		!is_equality(context->table->key_columns[key_index], clause->opno) ||
		!fits_type(context->table->key_columns[key_index], element) ||
		!is_known_before(context, array))
		return false;
	return add_value(context, key_index, (Expr *) array, true, length_of_array(array));
}

/* A boolean column standing for itself. */
static bool
bind_boolean(BindContext *context, Node *column, bool value)
{
	int key_index = match_key_column(context, column);

	if (key_index < 0 || context->table->key_columns[key_index]->codec != ZARIS_CODEC_BOOLEAN)
		return false;
	return add_value(context, key_index, (Expr *) makeBoolConst(value, false), false, 1);
}

static bool
bind_connective(BindContext *context, BoolExpr *clause)
{
	ListCell *cell;

	if (clause->boolop == NOT_EXPR)
		return bind_boolean(context, linitial(clause->args), false);
	if (clause->boolop != OR_EXPR)
		return false;
	foreach (cell, clause->args)
	{
		if (!bind_expression(context, lfirst(cell)) || context->binding->pattern != ZARIS_PATTERN_NONE)
			return false;
	}
	return true;
}

/* Collect what a clause, or an arm of one, says into context->binding. */
static bool
bind_expression(BindContext *context, Expr *clause)
{
	switch (nodeTag(clause))
	{
		case T_OpExpr:
			return bind_operator(context, (OpExpr *) clause);
		case T_ScalarArrayOpExpr:
			return bind_array(context, (ScalarArrayOpExpr *) clause);
		case T_BoolExpr:
			return bind_connective(context, (BoolExpr *) clause);
		case T_Var:
		case T_RelabelType:
			return bind_boolean(context, (Node *) clause, true);
		case T_BooleanTest:
		{
			BooleanTest *test = (BooleanTest *) clause;

			if (test->booltesttype != IS_TRUE && test->booltesttype != IS_FALSE)
				return false;
			return bind_boolean(context, (Node *) test->arg, test->booltesttype == IS_TRUE);
		}
		case T_FuncExpr:
		{
			FuncExpr		*call = (FuncExpr *) clause;
			ZarisPatternKind pattern = pattern_kind(call->funcid);

			return pattern != ZARIS_PATTERN_NONE &&
				   bind_pattern(context, pattern, call->args, call->inputcollid);
		}
		default:
			return false;
	}
}

/* A single value, not a list of them. */
static bool
is_single(const ZarisBinding *binding)
{
	return list_length(binding->values) == 1 && linitial_int(binding->is_array) == 0;
}

/*
 * One arm of a list of whole keys: a value for each key column goes to values[].  False: it leaves a column open.  What
 * the arm says besides makes the list inexact.
 */
static bool
bind_arm(const BindContext *outer, Expr *arm, Expr **values, bool *is_exact)
{
	List	 *conditions = is_andclause(arm) ? ((BoolExpr *) arm)->args : list_make1(arm);
	int		  n_found = 0;
	ListCell *cell;

	foreach (cell, conditions)
	{
		BindContext context = *outer;

		context.binding = palloc0(sizeof(ZarisBinding));
		if (bind_expression(&context, lfirst(cell)) && context.binding->pattern == ZARIS_PATTERN_NONE &&
			is_single(context.binding) && values[context.binding->key_index] == NULL)
		{
			values[context.binding->key_index] = linitial(context.binding->values);
			n_found++;
		}
		else
			*is_exact = false;
	}
	return n_found == outer->table->n_key_columns;
}

/* Whole keys, or NULL. */
static ZarisTuples *
bind_tuples(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table, RestrictInfo *clause)
{
	BindContext	 context = {root, rel, table, NULL};
	ZarisTuples *tuples;
	ListCell	*cell;

	if (clause->pseudoconstant || !is_orclause(clause->clause) || !restriction_is_securely_promotable(clause, rel))
		return NULL;
	tuples = palloc0(sizeof(*tuples));
	tuples->clause = clause;
	tuples->is_exact = true;
	tuples->values = palloc0(table->n_key_columns * sizeof(List *));
	foreach (cell, ((BoolExpr *) clause->clause)->args)
	{
		Expr **values = palloc0(table->n_key_columns * sizeof(Expr *));

		if (!bind_arm(&context, lfirst(cell), values, &tuples->is_exact))
			return NULL;
		for (int i = 0; i < table->n_key_columns; i++)
			tuples->values[i] = lappend(tuples->values[i], values[i]);
		tuples->n++;
	}
	return tuples;
}

ZarisBinding *
zaris_quals_bind(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table, RestrictInfo *clause)
{
	BindContext context = {root, rel, table, NULL};

	/*
	 * A gate above the plan checks pseudoconstants; and a clause of a security barrier's user must not decide what is
	 * read before the barrier's own clauses did.
	 */
	if (clause->pseudoconstant || !restriction_is_securely_promotable(clause, rel))
		return NULL;
	context.binding = palloc0(sizeof(ZarisBinding));
	context.binding->clause = clause;
	if (!bind_expression(&context, clause->clause))
		return NULL;
	return context.binding;
}

/* The better of two bindings of one column; old may be NULL. */
static bool
is_better(const ZarisBinding *new, const ZarisBinding *old)
{
	if (old == NULL || is_single(new) != is_single(old))
		return old == NULL || is_single(new);
	if (is_single(new))
		return IsA(linitial(new->values), Const) && !IsA(linitial(old->values), Const);
	return new->n_values < old->n_values;
}

ZarisKeyQuals *
zaris_quals_match(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table, List *clauses)
{
	ZarisKeyQuals *quals = palloc0(sizeof(*quals));
	ZarisBinding **patterns = palloc0(table->n_key_columns * sizeof(ZarisBinding *));
	ListCell	  *cell;

	quals->table = table;
	quals->bound = palloc0(table->n_key_columns * sizeof(ZarisBinding *));
	foreach (cell, clauses)
	{
		ZarisBinding  *binding = zaris_quals_bind(root, rel, table, lfirst_node(RestrictInfo, cell));
		ZarisBinding **place;

		if (binding == NULL)
		{
			if (quals->tuples == NULL)
				quals->tuples = bind_tuples(root, rel, table, lfirst(cell));
			continue;
		}
		quals->bindings = lappend(quals->bindings, binding);
		place = binding->pattern == ZARIS_PATTERN_NONE ? quals->bound : patterns;
		if (is_better(binding, place[binding->key_index]))
			place[binding->key_index] = binding;
	}
	while (quals->n_bound < table->n_key_columns && quals->bound[quals->n_bound] != NULL)
		quals->n_bound++;
	if (quals->n_bound < table->n_key_columns)
		quals->pattern = patterns[quals->n_bound];
	return quals;
}

bool
zaris_quals_are_complete(const ZarisKeyQuals *quals)
{
	return quals->n_bound == quals->table->n_key_columns;
}

double
zaris_quals_n_keys(const ZarisKeyQuals *quals)
{
	double n = 1;

	for (int i = 0; i < quals->n_bound; i++)
		n *= quals->bound[i]->n_values;
	return n;
}

List *
zaris_quals_expressions(const ZarisKeyQuals *quals, int n_used, List **is_array)
{
	List *expressions = NIL;

	*is_array = NIL;
	if (n_used == ZARIS_USE_TUPLES)
	{
		for (int i = 0; i < quals->table->n_key_columns; i++)
		{
			List *singles = NIL;

			for (int j = 0; j < quals->tuples->n; j++)
				singles = lappend_int(singles, 0);
			expressions = list_concat(expressions, quals->tuples->values[i]);
			*is_array = lappend(*is_array, singles);
		}
		return expressions;
	}
	for (int i = 0; i < n_used; i++)
	{
		expressions = list_concat(expressions, quals->bound[i]->values);
		*is_array = lappend(*is_array, list_copy(quals->bound[i]->is_array));
	}
	return expressions;
}

bool
zaris_quals_imply(const ZarisKeyQuals *quals, int n_used, const RestrictInfo *clause)
{
	bool is_get = n_used == quals->table->n_key_columns;

	if (n_used == ZARIS_USE_TUPLES)
		return quals->tuples->clause == clause && quals->tuples->is_exact;
	for (int i = 0; i < n_used; i++)
	{
		/* a scan's prefix is exact for single values; of several it takes what they have in common */
		if (quals->bound[i]->clause == clause)
			return is_get || is_single(quals->bound[i]);
		if (!is_get && !is_single(quals->bound[i]))
			return false;
	}
	return false;
}

/* Why a clause that was understood is not enough by itself. */
static char *
reason_of_binding(const ZarisKeyQuals *quals, int n_used, const ZarisBinding *binding)
{
	const char *name = quals->table->key_columns[binding->key_index]->name;

	if (n_used == ZARIS_USE_TUPLES)
		return pstrdup("another condition lists the keys");
	if (binding == quals->pattern && n_used == quals->n_bound)
		return psprintf("a pattern only narrows the keys that are scanned");
	if (binding->key_index >= quals->n_bound && binding->pattern == ZARIS_PATTERN_NONE)
		return psprintf("key column \"%s\" in front of \"%s\" is not bound",
						quals->table->key_columns[quals->n_bound]->name, name);
	if (binding->key_index < n_used && quals->bound[binding->key_index] == binding)
		return psprintf("several values of \"%s\" only narrow the keys that are scanned", name);
	if (binding->key_index < n_used)
		return psprintf("another clause binds key column \"%s\"", name);
	return psprintf("key column \"%s\" is not used to find keys", name);
}

/* Why a clause was not understood. */
static char *
reason_of_columns(RelOptInfo *rel, const ZarisTable *table, const RestrictInfo *clause)
{
	Bitmapset	  *attributes = NULL;
	StringInfoData others;

	initStringInfo(&others);
	pull_varattnos((Node *) clause->clause, rel->relid, &attributes);
	for (int i = 0; i < table->n_columns; i++)
	{
		const ZarisColumn *column = &table->columns[i];

		if (!bms_is_member(column->attnum - FirstLowInvalidHeapAttributeNumber, attributes))
			continue;
		if (column->role == ZARIS_COLUMN_KEY)
			return psprintf("the condition on key column \"%s\" does not give its values", column->name);
		appendStringInfo(&others, "%s\"%s\"", others.len > 0 ? ", " : "", column->name);
	}
	if (others.len == 0)
		return pstrdup("a condition without a key column");
	return psprintf("a condition on %s, not on the key", others.data);
}

char *
zaris_quals_reason(PlannerInfo *root, RelOptInfo *rel, const ZarisKeyQuals *quals, int n_used, RestrictInfo *clause)
{
	ListCell *cell;

	foreach (cell, quals->bindings)
	{
		ZarisBinding *binding = lfirst(cell);

		if (binding->clause == clause)
			return reason_of_binding(quals, n_used, binding);
	}
	if (n_used == ZARIS_USE_TUPLES && quals->tuples->clause == clause)
		return pstrdup("the list of keys says more than keys");
	return reason_of_columns(rel, quals->table, clause);
}
