/*
 * retry.h
 *	  What to do after an attempt: a pure function of policy, operation, answer and time (DESIGN 6).
 *
 * Two bounds, both honoured: max_attempts and the deadline.  Nothing here waits, sends or remembers; the
 * client carries the decision out.  Walked whole by test/unit/test_retry.c.
 */
#ifndef ZARIS_CLIENT_RETRY_H
#define ZARIS_CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "operation.h"
#include "status.h"

#define ZARIS_NO_DEADLINE	   UINT64_MAX
#define ZARIS_BACKOFF_CAP_US   UINT64_C(2000000)
#define ZARIS_MIGRATING_FACTOR 8
#define ZARIS_MAX_HOPS		   5
#define ZARIS_REVISIT_PAUSE_US UINT64_C(2000) /* doubles with each revisit: 2, 4, 8 ... ms */

typedef struct ZarisRetryPolicy
{
	int		 max_attempts; /* >= 1 */
	uint64_t backoff_us;   /* delay before attempt n + 1 is backoff * n */
	bool	 disabled;	   /* one attempt, no hop, raw status */
} ZarisRetryPolicy;

typedef enum ZarisRedirectKind
{
	ZARIS_REDIRECT_NONE, /* no target was named, or it cannot be dialled */
	ZARIS_REDIRECT_MOVED,
	ZARIS_REDIRECT_ASK
} ZarisRedirectKind;

/* What the decision needs to know of the operation and of the attempt that just ended. */
typedef struct ZarisRetryInput
{
	ZarisStatus		   status;
	ZarisOutcome	   outcome;
	ZarisRedirectKind  redirect;
	bool			   target_visited; /* the redirect's target was asked before in this operation */
	bool			   is_write;
	bool			   at_node;		 /* the kind addresses a node: never retried here, scan.c decides */
	int				   attempts;	 /* including this one */
	int				   hops;		 /* redirects followed so far */
	int				   revisits;	 /* so far */
	bool			   tainted;		 /* an earlier attempt of this write had an unknown outcome */
	ZarisPrecondition  precondition; /* of a write */
	ZarisOperationKind kind;
	uint64_t		   now_us;
	uint64_t		   deadline_us; /* absolute, or ZARIS_NO_DEADLINE */
	double			   jitter;		/* in [-1, 1]; scaled to +-20 % here */
} ZarisRetryInput;

typedef enum ZarisRetryAction
{
	ZARIS_RETRY_FINISH, /* with .status */
	ZARIS_RETRY_FOLLOW, /* the redirect, at .at_us; costs a hop and no attempt */
	ZARIS_RETRY_AGAIN	/* at .at_us; costs an attempt */
} ZarisRetryAction;

typedef struct ZarisRetryDecision
{
	ZarisRetryAction action;
	ZarisStatus		 status;		/* final, when action is FINISH; never Moved .. TransportError unless the budget ended it */
	uint64_t		 at_us;			/* not before; now_us = at once; never later than the deadline */
	bool			 patch_slot;	/* MOVED: correct the slot in the map */
	bool			 refresh;		/* start a refresh */
	bool			 suspect;		/* ... from another node than the one that answered */
	bool			 await_refresh; /* and do not go on before it ended (or its bounded wait did) */
	bool			 tainted;		/* the operation's taint from now on */
} ZarisRetryDecision;

/*
 * Rules, in this order:
 *	 1. Ok, Conflict, NotFound end the operation; but for a tainted write with a precondition only Ok proves
 *		anything: Conflict and NotFound are then OutcomeUnknown (I8), whoever's write it was that they saw.
 *	 2. A final status ends it (OutcomeUnknown in its stead when the write is tainted).
 *	 3. A write sent without an answer taints the operation.
 *	 4. Disabled: the raw status, after one attempt (OutcomeUnknown for a tainted write).
 *	 5. A redirect with a target is followed while hops < 5; a visited target pauses 2, 4, 8 ms first and awaits
 *		a refresh.  Not with max_attempts 1, which sends once; the map learns from the redirect all the same.
 *	 6. The attempt budget, then the deadline: a delay that would reach the deadline is not begun
 *		(DeadlineExceeded; OutcomeUnknown for a tainted write), so that the last word is the store's.
 */
extern ZarisRetryDecision zaris_retry_decide(const ZarisRetryPolicy *policy, const ZarisRetryInput *input);

#endif /* ZARIS_CLIENT_RETRY_H */
