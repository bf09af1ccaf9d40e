/*
 * scan_inside.h
 *	  What the files of the scan share: scan.c (rounds), walk.c (one node's keys of some slots), page.c (keys and
 *	  their values).  Nobody else includes it.
 *
 * A scan goes in rounds.  In each, every node that owns slots not done yet is walked; when all walks of the round are
 * over and their rows are given out, what is still not done makes the next round.
 *
 *	 NEXT_ROUND -> WALKING -> (all slots done) END
 *		 ^            |
 *		 +-- PAUSING <+		something failed, or slots moved: a pause, a refresh of the map
 *
 * A walk knows two methods.  PAGES goes through everything a node has, with the node's state before and after: for a
 * whole node.  LISTS asks for all keys of some slots at a time, with the state before and after in the same pipeline:
 * for slots that moved, since it is over before they move again.
 *
 *	 BEFORE -> WALKING -> AFTER -> (RECHECK) -> OVER		BEFORE and AFTER: PAGES on a partitioned store
 *
 * A slot that was open (migrating) on its owner all through the walk makes a second walk, of the node that it migrates
 * to; then the owner is asked once more (RECHECK).  Keys travel from the source to the target only, so that every key
 * that existed throughout was seen on one of them.
 */
#ifndef ZARIS_CLIENT_SCAN_INSIDE_H
#define ZARIS_CLIENT_SCAN_INSIDE_H

#include "fingerprints.h"
#include "inside.h"
#include "scan.h"
#include "slotset.h"

#define SCAN_PAGES_AHEAD   2 /* pages of a node that are not used up */
#define SCAN_SMALLEST_PAGE 10
#define SCAN_GROUP_FIRST   32	 /* slots in a node's first list ... */
#define SCAN_GROUP_MOST	   512	 /* ... and at most */
#define SCAN_SLOT_LIMIT	   10000 /* keys of a slot that is listed; larger ones are paged */
#define SCAN_RESCAN_SLOTS  512	 /* after a failure, with more slots than that on a node: pages, not lists */

/*
 * Rounds in a row in which slots moved and none was done, with pauses of 2, 4, 8 ... 50 ms: about a second.  Not
 * max_attempts: nothing fails here, and to lose the race with a migration three times is nothing unusual.
 */
#define SCAN_SETTLE_ROUNDS		  24
#define SCAN_SETTLE_PAUSE_US	  UINT64_C(2000)
#define SCAN_SETTLE_PAUSE_MOST_US UINT64_C(50000)

typedef struct ScanWalk ScanWalk;

typedef enum ScanPageState
{
	SCAN_PAGE_ASKED,
	SCAN_PAGE_WAITING, /* keys are there; the values of some are to be fetched */
	SCAN_PAGE_FETCHING,
	SCAN_PAGE_READY, /* rows [next_row, ready_end) can be given out */
	SCAN_PAGE_USED_UP
} ScanPageState;

typedef struct ScanPage
{
	struct ScanPage *newer;
	ScanPageState	 state;
	ZarisBatch		*batch; /* the page itself; its keys live here */
	ZarisBatch		*fetch; /* Gets of a slice; NULL until there was one */
	ZarisOperation	*ask;
	ZarisPageRequest page_request;
	ZarisSlotRequest slot_request;
	uint16_t		 slots[SCAN_GROUP_MOST];
	ZarisRecord	   **rows; /* keys that count, in the order of the page */
	ZarisOperation **gets; /* of rows [ready_start, ready_end), when values are fetched */
	int				 n_rows;
	int				 next_row;
	int				 ready_start;
	int				 ready_end;
} ScanPage;

typedef enum ScanMethod
{
	SCAN_BY_PAGES,
	SCAN_BY_LISTS
} ScanMethod;

typedef enum ScanWalkState
{
	SCAN_WALK_BEFORE,
	SCAN_WALK_WALKING,
	SCAN_WALK_AFTER,
	SCAN_WALK_RECHECK,
	SCAN_WALK_OVER
} ScanWalkState;

/* The owner of slots that a walk of their target completes. */
typedef struct ScanSource
{
	int			 node; /* ZARIS_NO_NODE: the walk is one of an owner */
	ZarisAddress address;
	uint64_t	 epoch;
	char		 node_id[48];
	char		 peer_id[48];
} ScanSource;

struct ScanWalk
{
	ZarisLink	  link; /* scan->walks */
	ZarisScan	 *scan;
	ScanMethod	  method;
	ScanWalkState state;
	int			  node;
	ZarisAddress  address; /* an id may be given to another node */
	ScanSource	  source;
	ZarisSlotSet  slots;   /* to be walked */
	ZarisSlotSet  counted; /* whose keys count */
	ZarisSlotSet  held;	   /* of a target: they held still here, so that the source is to be asked again */
	bool		  fresh;   /* nothing was asked yet: slots can be added */
	bool		  failed;

	ZarisBatch			 *batch; /* for the states */
	ZarisOperation		 *asked; /* the state that is waited for, or NULL */
	const ZarisNodeState *before;
	const ZarisNodeState *after;

	ScanPage *pages; /* oldest first */
	ScanPage *newest;
	int		  n_pages;
	int		  n_asked; /* of them not answered */
	bool	  at_end;  /* nothing is left to ask for */

	/* PAGES */
	char  *cursor; /* of the next page; malloc'd; nil at the start */
	size_t cursor_len;
	int	   count;

	/* LISTS */
	int next_slot;
	int group;
};

typedef enum ScanState
{
	SCAN_NEXT_ROUND,
	SCAN_WALKING,
	SCAN_PAUSING,
	SCAN_END,
	SCAN_FAILED
} ScanState;

struct ZarisScan
{
	ZarisScanLink	  link;
	ZarisClient		 *client;
	ZarisScanRequest  request;
	uint64_t		  deadline_us;
	ScanState		  state;
	bool			  partitioned;
	bool			  ordered;	   /* one node, pages in key order: no key comes twice */
	bool			  has_records; /* pages carry the records */
	int				  n_slots;
	ZarisSlotSet	  done;
	ZarisSlotSet	  too_large;	 /* to be listed: they are paged */
	ZarisSlotSet	  after_failure; /* the last walk of them failed */
	ZarisFingerprints seen;
	ZarisLink		  walks;
	bool			  walks_were_added;
	ScanPage		 *spare;	   /* for later use, with their memory */
	ScanPage		 *giving;	   /* whose rows are being given out: the oldest of its walk */
	int				  open_slices; /* pages that fetch, or are ready with what they fetched */
	char			 *resume;	   /* ordered: the cursor at which a walk failed */
	size_t			  resume_len;

	/* the round */
	uint64_t	   rounds;
	int			   done_before;
	uint64_t	   keys_before;
	uint64_t	   new_keys;
	bool		   map_was_awaited;
	ZarisStatus	   trouble;				  /* the first failure of the round; Ok = none */
	bool		   trouble_has_operation; /* failed_operation is its */
	uint64_t	   trouble_at_us;
	int			   failures;  /* rounds in a row that failed without progress */
	int			   unsettled; /* rounds in a row in which slots moved without progress */
	uint64_t	   not_before_us;
	uint64_t	   refresh_until_us;
	ZarisOperation asker; /* stands for the scan where an operation asks for a refresh */

	ZarisScanStats	 stats;
	ZarisScanFailure failure;
	ZarisOperation	 failed_operation;
	char			 failure_text[ZARIS_ERROR_TEXT];
	char			 trouble_text[ZARIS_ERROR_TEXT];
};

/* scan.c */

/* End the scan: for good, with the first reason that is given. operation may be NULL, and is copied. */
extern void zaris_scan_fail(ZarisScan *scan, ZarisStatus status, const ZarisOperation *operation, const char *text);

/* A walk met an error: final ones end the scan, others the round (operation as above). */
extern void zaris_scan_trouble(ZarisScan *scan, ZarisStatus status, const ZarisOperation *operation, const char *text);
extern void zaris_scan_slot_is_done(ZarisScan *scan, int slot);

/* walk.c */
extern ScanWalk *zaris_walk_begin(ZarisScan *scan, int node, ScanMethod method); /* then add slots; NULL = scan failed */
extern void		 zaris_walk_advance(ScanWalk *walk);
extern bool		 zaris_walk_is_over(const ScanWalk *walk); /* and all its rows are given out */
extern void		 zaris_walk_free(ScanWalk *walk, bool broken);
extern void		 zaris_walk_set_deadline(ScanWalk *walk, uint64_t deadline_us);

/* page.c */
extern ScanPage *zaris_page_begin(ZarisScan *scan);													 /* with ->ask, to be filled in and submitted; NULL = scan failed */
extern bool		 zaris_page_take_keys(ScanPage *page, ZarisScan *scan, const ZarisSlotSet *counted); /* false = scan failed */
extern void		 zaris_page_advance(ScanPage *page, ZarisScan *scan);
extern bool		 zaris_page_next_row(ScanPage *page, ZarisScan *scan, ZarisRecord *record); /* false: none is ready */
extern void		 zaris_page_recycle(ScanPage *page, ZarisScan *scan);
extern void		 zaris_page_set_deadline(ScanPage *page, uint64_t deadline_us);
extern void		 zaris_page_free(ScanPage *page, bool broken);

#endif /* ZARIS_CLIENT_SCAN_INSIDE_H */
