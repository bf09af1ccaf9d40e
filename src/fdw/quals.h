/*
 * quals.h
 *	  Which clauses of a query say what a table's keys are.
 *
 * One question, answered clause by clause: does this clause give all values that a key column may have?
 *
 *		key = expr					expr without columns of this table and not volatile; an equality of the column type's
 *									btree family under a deterministic collation, so that equal means equal bytes
 *		key = ANY (array)			likewise for each element
 *		key = a OR key = ANY (b)	all arms about the same column
 *		key, NOT key, key IS TRUE	a boolean column
 *		key LIKE pattern			gives a prefix; without wildcards the value itself
 *		key ^@ prefix
 *		(a = 1 AND b = 2) OR (a = 3 AND b = 4)		whole keys, also written (a, b) IN ((1, 2), (3, 4))
 *
 * Integers of other widths are taken by value.  Whatever is not understood stays a local filter, so that an answer
 * never changes (I12).
 */
#ifndef ZARIS_FDW_QUALS_H
#define ZARIS_FDW_QUALS_H

#include "postgres.h"

#include "nodes/pathnodes.h"

#include "fdw/plan.h"
#include "fdw/table.h"

/* What a clause says of one key column. */
typedef struct ZarisBinding
{
	RestrictInfo	*clause;
	int				 key_index; /* of the column, in template order */
	List			*values;	/* Exprs; the column's values are the union of theirs */
	List			*is_array;	/* of int, for each of them */
	double			 n_values;	/* estimate */
	ZarisPatternKind pattern;	/* else values has one element, the pattern */
} ZarisBinding;

/* A clause that lists whole keys. */
typedef struct ZarisTuples
{
	RestrictInfo *clause;
	int			  n;
	List		**values;	/* for each key column n expressions: the i-th ones belong together */
	bool		  is_exact; /* the clause says no more than that */
} ZarisTuples;

/* What all clauses together say of the key. */
typedef struct ZarisKeyQuals
{
	const ZarisTable *table;
	List			 *bindings; /* all that were understood */
	int				  n_bound;	/* leading key columns with values */
	ZarisBinding	**bound;	/* for each of these the best binding */
	ZarisBinding	 *pattern;	/* of the first column behind them, or NULL */
	ZarisTuples		 *tuples;	/* a list of whole keys, or NULL */
} ZarisKeyQuals;

/* As a number of used columns: the tuples are used instead. */
#define ZARIS_USE_TUPLES (-1)

/* What one clause says, or NULL. */
extern ZarisBinding *zaris_quals_bind(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table, RestrictInfo *clause);

/* What the clauses (RestrictInfos) say together, palloc'd. */
extern ZarisKeyQuals *zaris_quals_match(PlannerInfo *root, RelOptInfo *rel, const ZarisTable *table, List *clauses);

/* Whether all key columns are bound, so that keys can be asked for. */
extern bool zaris_quals_are_complete(const ZarisKeyQuals *quals);

/* How many keys they name, about. */
extern double zaris_quals_n_keys(const ZarisKeyQuals *quals);

/*
 * The expressions of the first n_used bound columns, or of the tuples; *is_array gets for each column which of its expressions are arrays, as
 * ZARIS_PRIVATE_BINDINGS wants it.
 */
extern List *zaris_quals_expressions(const ZarisKeyQuals *quals, int n_used, List **is_array);

/*
 * Whether keys that are asked for as these quals say satisfy the clause without a look at the row, when the first n_used
 * bound columns are used (or ZARIS_USE_TUPLES).
 */
extern bool zaris_quals_imply(const ZarisKeyQuals *quals, int n_used, const RestrictInfo *clause);

/* Why the clause is checked locally then: a phrase for EXPLAIN. */
extern char *zaris_quals_reason(PlannerInfo *root, RelOptInfo *rel, const ZarisKeyQuals *quals, int n_used,
								RestrictInfo *clause);

#endif /* ZARIS_FDW_QUALS_H */
