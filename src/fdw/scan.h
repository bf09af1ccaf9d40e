/*
 * scan.h
 *	  Execution of reads: PostgreSQL's callbacks.
 *
 * Nothing is sent before the first row is asked for.  Gets go out in batches of batch_size, in pipelines to all
 * nodes at once, and rows come in the order in which the keys were asked for; a lone key is one GET.  Scans are
 * the core's (client/scan.h): each key that existed throughout once, or an error (I11).
 */
#ifndef ZARIS_FDW_SCAN_H
#define ZARIS_FDW_SCAN_H

#include "postgres.h"

#include "foreign/fdwapi.h"

/* What EXPLAIN ANALYZE shows of a read: the node's own work over all its loops. */
typedef struct ZarisScanCounts
{
	uint64 requests;	/* attempts sent */
	uint64 round_trips; /* about */
	uint64 bytes;		/* of keys and values received */
	uint64 retries;
	uint64 redirects;
	uint64 skipped; /* keys seen that are no rows: not canonical, of another kind, doubled */
} ZarisScanCounts;

extern void			   zaris_begin_foreign_scan(ForeignScanState *node, int eflags);
extern TupleTableSlot *zaris_iterate_foreign_scan(ForeignScanState *node);
extern void			   zaris_rescan_foreign_scan(ForeignScanState *node);
extern void			   zaris_end_foreign_scan(ForeignScanState *node);
extern bool			   zaris_recheck_foreign_scan(ForeignScanState *node, TupleTableSlot *slot);

/* Zeroes for a node that did not run. */
extern ZarisScanCounts zaris_scan_counts(const ForeignScanState *node);

#endif /* ZARIS_FDW_SCAN_H */
