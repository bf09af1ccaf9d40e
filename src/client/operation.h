/*
 * operation.h
 *	  One operation on one record: what is asked, how its life went, what came of it.
 *
 * Operations are made by a batch (client.h) and live until the batch is reset or freed.
 *
 * Who owns which bytes.  Everything that a ZarisBytes of the request points to (key, value, fields) belongs to
 * the caller and must stay as it is until the operation is done or its batch is reset, freed or abandoned:
 * a retry composes the command again from it.  Results point into the batch's arena and live as long as
 * the batch is not reset.
 *
 * Bytes carry lengths (I9): NUL is data, data == NULL is nil, and an empty value is not nil.
 */
#ifndef ZARIS_CLIENT_OPERATION_H
#define ZARIS_CLIENT_OPERATION_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct ZarisBytes
{
	const char *data; /* NULL = nil */
	size_t		len;
} ZarisBytes;

typedef enum ZarisOperationKind
{
	ZARIS_OP_GET,		 /* by key */
	ZARIS_OP_PUT,		 /* by key */
	ZARIS_OP_DELETE,	 /* by key */
	ZARIS_OP_SCAN_PAGE,	 /* at one node: the next page of keys */
	ZARIS_OP_LIST_SLOTS, /* at one node: all keys of some slots, with the node's state before and after */
	ZARIS_OP_NODE_STATE	 /* at one node: which slots it owns and which are open */
} ZarisOperationKind;

/* What a key holds.  A key of another kind is no record of the table (WrongType). */
typedef enum ZarisRecordKind
{
	ZARIS_RECORD_STRING,
	ZARIS_RECORD_HASH
} ZarisRecordKind;

typedef enum ZarisPrecondition
{
	ZARIS_IF_ABSENT,	   /* else Conflict */
	ZARIS_IF_PRESENT,	   /* else NotFound: last writer wins */
	ZARIS_IF_MATCH_VERSION /* else Conflict, also when the key is gone */
} ZarisPrecondition;

typedef enum ZarisExpiryAction
{
	ZARIS_EXPIRY_KEEP, /* leave it; a new record gets none */
	ZARIS_EXPIRY_CLEAR,
	ZARIS_EXPIRY_SET /* to expires_at_ms */
} ZarisExpiryAction;

/* What a Get or Scan must return; 0 asks only whether a record of that kind exists. */
#define ZARIS_WANT_VALUE   0x01 /* string: value; hash: the listed fields, or all when none is listed */
#define ZARIS_WANT_VERSION 0x02 /* of the whole record */
#define ZARIS_WANT_EXPIRY  0x04

typedef struct ZarisField
{
	ZarisBytes name;
	ZarisBytes value; /* nil: Put removes the field, Get found none */
} ZarisField;

/* How far an attempt got.  NotSent and Rejected prove that a write was not applied. */
typedef enum ZarisOutcome
{
	ZARIS_OUTCOME_NOT_SENT, /* not every byte of the command left the process */
	ZARIS_OUTCOME_REJECTED, /* an error reply that proves it did not run */
	ZARIS_OUTCOME_APPLIED,	/* an answer: it ran (and may have said Conflict) */
	ZARIS_OUTCOME_IN_DOUBT	/* Unknown: all sent, no reply (ZARIS_OUTCOME_UNKNOWN is the status) */
} ZarisOutcome;

#define ZARIS_NO_EXPIRY	  INT64_C(-1)
#define ZARIS_NO_NODE	  (-1)
#define ZARIS_MAX_VISITED 8	  /* nodes remembered for messages and for the revisit rule */
#define ZARIS_ERROR_TEXT  192 /* bytes of a store's own error text that are kept, NUL included */

typedef enum ZarisOperationState
{
	ZARIS_OPERATION_NEW,	/* not submitted */
	ZARIS_OPERATION_QUEUED, /* waits for the map, a refresh or its backoff */
	ZARIS_OPERATION_SENT,	/* with a driver */
	ZARIS_OPERATION_DONE	/* status is final, and only now is it (I6) */
} ZarisOperationState;

struct ZarisBatch;
struct ZarisKeyPage;   /* store.h */
struct ZarisNodeState; /* store.h */

typedef struct ZarisOperation
{
	/* what is asked: set by the caller before zaris_batch_submit */
	ZarisOperationKind kind;
	ZarisRecordKind	   record;
	ZarisBytes		   key;
	int				   want;		  /* Get: ZARIS_WANT_* */
	ZarisPrecondition  precondition;  /* Put, Delete */
	int64_t			   match_version; /* for ZARIS_IF_MATCH_VERSION */
	ZarisBytes		   value;		  /* Put of a string */
	ZarisField		  *fields;		  /* Put of a hash: the fields that change (with IfAbsent: all). Get: names asked for;
								 * the array is the caller's, the result fills in .value */
	int				   n_fields;
	ZarisExpiryAction  expiry;		  /* Put */
	int64_t			   expires_at_ms; /* for ZARIS_EXPIRY_SET; milliseconds since 1970 */
	int				   node;		  /* for kinds that address a node; else where the last attempt went */
	const void		  *scan;		  /* for kinds that address a node: ZarisPageRequest or ZarisSlotRequest (store.h) */
	void			  *user;		  /* the caller's */

	/* what came of it: valid when state is ZARIS_OPERATION_DONE */
	ZarisStatus			   status;
	ZarisBytes			   result;	   /* Get of a string */
	ZarisField			  *all_fields; /* Get of a hash that listed no field; sorted by name */
	int					   n_all_fields;
	int64_t				   version; /* Get: as read; Put: as written, where the store could tell (has_version) */
	bool				   has_version;
	int64_t				   expiry_ms;  /* Get with WANT_EXPIRY; ZARIS_NO_EXPIRY = none */
	struct ZarisKeyPage	  *page;	   /* SCAN_PAGE, LIST_SLOTS */
	struct ZarisNodeState *node_state; /* NODE_STATE */

	/* its life: the core's; callers read it for messages */
	ZarisOperationState state;
	int					attempts;		/* that counted against max_attempts */
	int					hops;			/* redirects followed */
	int					revisits;		/* redirects back to a visited node */
	bool				tainted;		/* a write that had an attempt with an unknown outcome */
	bool				forced_refresh; /* used its one refresh inside the debounce interval */
	uint64_t			map_generation; /* that it was last routed by */
	uint64_t			started_us;
	uint64_t			finished_us;
	int					visited[ZARIS_MAX_VISITED]; /* node ids in order, the last ones */
	int					n_visited;
	ZarisStatus			last_status;				  /* of the last attempt; differs from status when the budget ended it */
	char				error_text[ZARIS_ERROR_TEXT]; /* the store's words for last_status, raw bytes, NUL-terminated */

	struct ZarisBatch	  *batch;		  /* NULL once abandoned */
	struct ZarisOperation *next;		  /* core's queues */
	uint64_t			   wake_at_us;	  /* QUEUED: end of the backoff, or bound of the refresh wait */
	uint64_t			   not_before_us; /* QUEUED: end of the backoff */
	bool				   awaits_refresh;
	bool				   has_waited; /* QUEUED: for a refresh, which is over; not again before the next attempt */
	int					   target;	   /* node of a redirect to follow, or ZARIS_NO_NODE */
	bool				   asking;
	bool				   hopping; /* QUEUED: what comes next is a hop, which costs no attempt */
} ZarisOperation;

#endif /* ZARIS_CLIENT_OPERATION_H */
