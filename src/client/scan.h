/*
 * scan.h
 *	  Every record under a prefix, exactly once, or an error: never a silent part (I11).
 *
 * Slots move and nodes fail while a scan runs, and a store promises nothing across nodes.  So the scan keeps
 * a book of slots (DESIGN 12):
 *
 *	 1. Each primary says which slots it owns and which of them are open (migrating or importing).
 *	 2. All primaries are scanned at once, page after page; a key counts only if its node owned the slot when that
 *		node's scan began.  128-bit fingerprints of the keys given out drop duplicates.
 *	 3. When a node is through, it is asked again.  A slot is done if the node's epoch is the same, it owned it all
 *		along, and it is not open.  For an open one the node that it migrates to is walked as well, then the source
 *		is asked once more (keys only travel from source to target).  All other slots are still to be done.
 *	 4. What is still to be done is listed slot by slot on its present owner, with the owner's state before and
 *		after in the same pipeline, and goes on as in 3.  Until all slots are done, or the budget is spent.
 *
 * A slot without an owner, a node that cannot be reached within the budget, or slots that will not hold
 * still end the scan with an error.
 *
 * Values are fetched by ordinary Gets, in one pipeline a page, which follow redirects like any others; a key that
 * is gone by then did not exist throughout and is left out.  The next page is asked for before this one is used.
 *
 * On a store that is not partitioned there is one node and nothing to book; with CAN_RECORDS the pages carry
 * the records.
 *
 * Use: like a batch; nothing blocks.
 *
 *		scan = zaris_scan_begin(client, &request);
 *		while ((step = zaris_scan_next(scan, &record)) != ZARIS_SCAN_END)
 *			ROW: use record;  FAILED: zaris_scan_failure()
 *			WAIT: turn the client, ask for the next again, and only if that says WAIT too sleep for as long as
 *			zaris_client_timeout_ms() says (what came with the turn may be answered with new requests)
 *		zaris_scan_end(scan);			-- or zaris_scan_abandon(scan) on an error path
 */
#ifndef ZARIS_CLIENT_SCAN_H
#define ZARIS_CLIENT_SCAN_H

#include "client.h"

typedef struct ZarisScan ZarisScan;

typedef struct ZarisScanRequest
{
	ZarisBytes prefix; /* the caller's until the scan ends, as are all pointers here */
	ZarisBytes low,
		high; /* CAN_ORDER */
	bool			  backward;
	ZarisRecordKind	  record;
	int				  want;	  /* ZARIS_WANT_*; 0 = keys only, no value is fetched */
	const ZarisBytes *fields; /* hash: which fields; none = all */
	int				  n_fields;
	int				  page_size; /* most keys a page (fetch_size) */
	int64_t			  row_hint;	 /* about how many rows will be taken; 0 = all. Pages begin small then. */
} ZarisScanRequest;

typedef enum ZarisScanStep
{
	ZARIS_SCAN_ROW,
	ZARIS_SCAN_WAIT,
	ZARIS_SCAN_END,
	ZARIS_SCAN_FAILED
} ZarisScanStep;

/* What a failed scan says of itself; pointers live as long as the scan. */
typedef struct ZarisScanFailure
{
	ZarisStatus			  status;
	const ZarisOperation *operation;  /* the one that failed, or NULL */
	int					  slots_left; /* not done, of a partitioned store */
	const char			 *text;		  /* the store's words, or a static sentence of ours; "" = none */
} ZarisScanFailure;

typedef struct ZarisScanStats
{
	uint64_t pages;
	uint64_t keys;			/* named by pages */
	uint64_t duplicates;	/* dropped */
	uint64_t foreign_slots; /* keys of slots that the node did not own */
	uint64_t vanished;		/* gone, or of another kind, when fetched */
	uint64_t slots_again;	/* slots that moved and were listed again */
} ZarisScanStats;

extern ZarisScan *zaris_scan_begin(ZarisClient *client, const ZarisScanRequest *request); /* NULL = out of memory */

/* ROW: *record is valid until the next call. */
extern ZarisScanStep		   zaris_scan_next(ZarisScan *scan, ZarisRecord *record);
extern void					   zaris_scan_set_deadline(ZarisScan *scan, uint64_t deadline_us); /* as for a batch: while somebody waits */
extern const ZarisScanFailure *zaris_scan_failure(const ZarisScan *scan);
extern const ZarisScanStats	  *zaris_scan_stats(const ZarisScan *scan);
extern void					   zaris_scan_end(ZarisScan *scan);
extern void					   zaris_scan_abandon(ZarisScan *scan);

#endif /* ZARIS_CLIENT_SCAN_H */
