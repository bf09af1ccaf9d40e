/*
 * lookup.h
 *	  The keys that a plan names: its expressions evaluated, multiplied out, made into keys.
 *
 * For whoever runs a ForeignScan's fdw_private and fdw_exprs (plan.h): scans and direct modification.
 *
 *		lookup = zaris_lookup_create(table, fdw_private, fdw_exprs, planstate);		-- once
 *		zaris_lookup_evaluate(lookup, econtext);									-- again after each rescan
 *		while (zaris_lookup_next(lookup, &key)) ...									-- all columns bound: Get
 *		zaris_lookup_prefix(lookup, &prefix)										-- else: Scan
 *
 * NULLs, NULL elements and values that no key of the table can have give nothing; each key comes once, in the order
 * in which the expressions name them.  The product of several lists is never held in memory.
 */
#ifndef ZARIS_FDW_LOOKUP_H
#define ZARIS_FDW_LOOKUP_H

#include "fdw/table.h"
#include "nodes/execnodes.h"

typedef struct ZarisLookup ZarisLookup;

/* Made in the current context, which outlives its use. planstate is the expressions' parent. */
extern ZarisLookup *zaris_lookup_create(const ZarisTable *table, List *fdw_private, List *fdw_exprs, PlanState *planstate);

/* Compute the values anew. Raises what the expressions raise; nothing is sent. */
extern void zaris_lookup_evaluate(ZarisLookup *lookup, ExprContext *econtext);

/* Append the next key to *key (which is reset first). False: there is none. */
extern bool zaris_lookup_next(ZarisLookup *lookup, StringInfo key);

/* Append what all wanted keys begin with to *prefix. False: no key can match. */
extern bool zaris_lookup_prefix(ZarisLookup *lookup, StringInfo prefix);

#endif /* ZARIS_FDW_LOOKUP_H */
