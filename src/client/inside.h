/*
 * inside.h
 *	  What the files of the core share: client.c (an operation's life), batch.c, refresh.c and the scan.
 *	  Nobody else includes it.
 *
 * Who waits for what.  An operation that is QUEUED stands in its batch's queue; a batch with a queue stands in
 * client->waiting; so a turn looks at nothing that is idle.  A batch with a deadline and unfinished operations stands
 * in client->timed.  An operation that is SENT is known to the driver; to find those of a batch (for its deadline) the
 * batch's slabs are walked, which only happens then.
 *
 * Callbacks of the driver only move states: what follows from an answer (the next attempt, the next node to ask for
 * the map) is begun by the turn, never from inside a callback.
 */
#ifndef ZARIS_CLIENT_INSIDE_H
#define ZARIS_CLIENT_INSIDE_H

#include "check.h"
#include "client.h"
#include "list.h"

#define ZARIS_FAR_FUTURE UINT64_MAX

/* The single flight of a map refresh (refresh.c). */
typedef enum ZarisRefreshState
{
	ZARIS_REFRESH_IDLE,
	ZARIS_REFRESH_DUE,	 /* the next node is to be asked, by the turn */
	ZARIS_REFRESH_ASKING /* with the driver */
} ZarisRefreshState;

typedef struct ZarisRefresh
{
	ZarisRefreshState state;
	bool			  ended;					   /* since the last wake: those who wait for it are to be looked at */
	uint64_t		  last_success_us;			   /* 0 = never */
	bool			  asked_node[ZARIS_MAX_NODES]; /* in this refresh */
	bool			  asked_seed[ZARIS_MAX_SEEDS];
	bool			  suspect[ZARIS_MAX_NODES]; /* asked last of all known nodes */

	/* why this one fails so far; and how the last one ended */
	ZarisStatus so_far;
	char		so_far_text[ZARIS_ERROR_TEXT];
	ZarisStatus status; /* Ok = the last refresh succeeded, or none was made */
	char		text[ZARIS_ERROR_TEXT];
} ZarisRefresh;

struct ZarisClient
{
	const ZarisStoreDriver *driver;
	ZarisStore			   *store;
	ZarisHost				host;
	ZarisLoop			   *loop; /* may be NULL: a store that needs no waiting */
	ZarisUrl				url;
	ZarisRetryPolicy		policy;
	uint64_t				map_refresh_wait_us;
	ZarisClientStats		stats;

	ZarisMap	 map;
	ZarisRefresh refresh;
	int			 in_flight[ZARIS_MAX_NODES]; /* operations with the driver */
	bool		 reconnect[ZARIS_MAX_NODES]; /* it redirects to itself: to be dialled anew once nothing is in flight */

	uint64_t  now_us; /* the clock as it was last read */
	bool	  unflushed;
	ZarisLink batches;
	ZarisLink waiting;
	ZarisLink timed;
	ZarisLink scans;
};

/* Memory of a batch. */
#define ZARIS_SLAB_OPERATIONS 64

typedef struct ZarisSlab
{
	struct ZarisSlab *next;
	int				  used;
	ZarisOperation	  operations[ZARIS_SLAB_OPERATIONS];
} ZarisSlab;

typedef struct ZarisChunk
{
	struct ZarisChunk *next;
	size_t			   size; /* of what follows */
} ZarisChunk;

struct ZarisBatch
{
	ZarisClient *client;
	ZarisLink	 all;	  /* client->batches */
	ZarisLink	 waiting; /* client->waiting while it has a queue */
	ZarisLink	 timed;	  /* client->timed while it has a deadline and something to do */
	int			 pending; /* submitted and not done */
	int			 writes;  /* ... of these, writes */
	unsigned	 submits;
	uint64_t	 deadline_us;
	bool		 expiring; /* its deadline passed: answers that come now end operations */

	ZarisOperation	*queue; /* first in, first looked at */
	ZarisOperation **queue_end;
	uint64_t		 wake_at_us;	 /* earliest in the queue */
	bool			 awaits_refresh; /* somebody in the queue does */

	ZarisSlab  *slabs; /* all; those behind `slab` are empty */
	ZarisSlab  *slab;
	ZarisChunk *chunks; /* likewise */
	ZarisChunk *chunk;
	size_t		chunk_used;
};

/* A scan as the client knows it (scan.c). */
typedef struct ZarisScanLink
{
	ZarisLink link;		  /* client->scans */
	uint64_t  wake_at_us; /* when it wants to be looked at; ZARIS_FAR_FUTURE = for events only */
} ZarisScanLink;

/* client.c */
extern uint64_t zaris_client_read_clock(ZarisClient *client);
extern double	zaris_client_jitter(ZarisClient *client); /* in [-1, 1] */
extern void		zaris_client_flush(ZarisClient *client);
extern void		zaris_client_release_waiters(ZarisClient *client);
extern void		zaris_client_submit(ZarisClient *client, ZarisOperation *operation);
extern void		zaris_client_expire_batch(ZarisClient *client, ZarisBatch *batch);
extern void		zaris_client_detach(ZarisClient *client, ZarisBatch *batch, bool broken);
extern bool		zaris_operation_is_write(const ZarisOperation *operation);
extern bool		zaris_operation_is_at_node(const ZarisOperation *operation);
extern void		zaris_operation_set_text(char text[ZARIS_ERROR_TEXT], const char *words, size_t len);

/* refresh.c */

/*
 * Have the map refreshed.  operation: who asks, whose debounce it is; NULL = no debounce.  suspect: a node not to ask
 * first, or ZARIS_NO_NODE.  True when a refresh is under way, false when the map is too fresh for another one.
 */
extern bool zaris_refresh_want(ZarisClient *client, ZarisOperation *operation, int suspect);
extern void zaris_refresh_step(ZarisClient *client); /* ask the next node, if one is to be asked */
extern void zaris_refresh_fetched(ZarisClient *client, ZarisStatus status, const ZarisTopology *topology,
								  const char *text);

/* batch.c */
extern void			   zaris_batch_enqueue(ZarisBatch *batch, ZarisOperation *operation);
extern ZarisOperation *zaris_batch_take_queue(ZarisBatch *batch);
extern void			   zaris_batch_finished_one(ZarisBatch *batch, const ZarisOperation *operation);

/* scan.c */
extern void zaris_scan_abandon_link(ZarisScanLink *link);

#endif /* ZARIS_CLIENT_INSIDE_H */
