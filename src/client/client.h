/*
 * client.h
 *	  The client core: runs operations on a store whose owner of a key changes under it.
 *
 * The one place where map, retry and store meet.  An operation's life:
 *
 *		new -> queued -> sent -> answered -> done
 *				 ^                  |
 *				 +--- again, follow-+		(backoff, refresh, redirect: retry.h decides)
 *
 * Nothing here blocks or raises.  Whoever waits turns the client (see loop.h for the loop that is right):
 *
 *		batch = zaris_batch_create(client);
 *		op = zaris_batch_operation(batch);  op->kind = ...;  zaris_batch_submit(batch, op);
 *		zaris_batch_set_deadline(batch, deadline);		-- when the wait begins, not when the batch is made
 *		while (!zaris_batch_is_done(batch)) { zaris_client_turn(client); ... wait ... }
 *
 * A deadline belongs to a batch, and holds only while somebody waits for it: set it when the wait begins
 * and put it back to ZARIS_NO_DEADLINE when it ends, so that a cursor which its reader leaves alone for an
 * hour does not time out (I4 counts from the wait).
 *
 * Ends of a batch: reset or free after everything is done; free earlier (a LIMIT) drops the outstanding
 * replies when they come; abandon (an error) closes the connections that owe it replies (I10).  Abandon and
 * free call nothing back and may run in a memory context's reset callback.
 */
#ifndef ZARIS_CLIENT_CLIENT_H
#define ZARIS_CLIENT_CLIENT_H

#include "store.h"

typedef struct ZarisBatch ZarisBatch;

typedef struct ZarisClientOptions
{
	ZarisUrl	url;
	const char *user; /* NULL = none; copied */
	const char *password;
	const char *client_name;
	const char *directory;
	uint64_t	connect_timeout_us;
	uint64_t	map_refresh_wait_us;
} ZarisClientOptions;

typedef struct ZarisClientStats
{
	uint64_t operations; /* finished */
	uint64_t requests;	 /* attempts sent */
	uint64_t retries;
	uint64_t redirects;
	uint64_t refreshes;	   /* map fetches begun */
	uint64_t flushes;	   /* turns that wrote something: round trips, about */
	uint64_t result_bytes; /* values and keys received */
} ZarisClientStats;

#define ZARIS_REFRESH_DEBOUNCE_US UINT64_C(500000)

/* NULL with a static sentence in *problem when the store cannot be opened. The loop may be shared by clients. Does no I/O for a remote store. */
extern ZarisClient			  *zaris_client_open(const ZarisStoreDriver *driver, const ZarisClientOptions *options,
												 const ZarisHost *host, ZarisLoop *loop, const char **problem);
extern void					   zaris_client_close(ZarisClient *client);										 /* abandons what is left */
extern void					   zaris_client_set_policy(ZarisClient *client, const ZarisRetryPolicy *policy); /* for what is submitted or retried from now on */
extern void					   zaris_client_set_map_refresh_wait(ZarisClient *client, uint64_t wait_us);	 /* likewise */
extern unsigned				   zaris_client_capabilities(const ZarisClient *client);
extern const ZarisMap		  *zaris_client_map(const ZarisClient *client);
extern const ZarisClientStats *zaris_client_stats(const ZarisClient *client);
extern int					   zaris_client_slot(const ZarisClient *client, const char *key, size_t len);
extern int					   zaris_client_connections(const ZarisClient *client);

/*
 * Go on with everything that can go on: flush, turn the loop, wake what is due, end what is past its deadline
 * (in this order: an answer that has come is taken before a deadline that has passed).
 */
extern void zaris_client_turn(ZarisClient *client);

/*
 * Whether the next turn may write to a store whose writers stand in line (ZARIS_CAN_LOCK): the host turns only while it
 * holds the lock of that name then, since the store's own lock cannot be waited for interruptibly (I3).
 */
extern bool zaris_client_wants_lock(const ZarisClient *client);

/* How long a wait may last before the next turn is due: milliseconds, 0 = turn again, -1 = until the fd is readable. */
extern int zaris_client_timeout_ms(ZarisClient *client);

/* Make the map known, or newer than `generation`; true when it is. Starts a refresh, or rides the one in flight. */
extern bool zaris_client_want_map(ZarisClient *client, uint64_t generation);
extern bool zaris_client_map_pending(const ZarisClient *client); /* a refresh is in flight */

/* The last failure to fetch the map, for messages; "" = none. */
extern const char *zaris_client_map_error(const ZarisClient *client, ZarisStatus *status);

/* batches */
extern ZarisBatch	  *zaris_batch_create(ZarisClient *client);			  /* NULL = out of memory */
extern ZarisOperation *zaris_batch_operation(ZarisBatch *batch);		  /* zeroed, node = ZARIS_NO_NODE; NULL = out of memory */
extern void			  *zaris_batch_alloc(ZarisBatch *batch, size_t size); /* lives until reset; NULL = out of memory */
extern void			   zaris_batch_submit(ZarisBatch *batch, ZarisOperation *operation);
extern void			   zaris_batch_set_deadline(ZarisBatch *batch, uint64_t deadline_us);
extern uint64_t		   zaris_batch_deadline(const ZarisBatch *batch);
extern bool			   zaris_batch_is_done(const ZarisBatch *batch); /* nothing submitted is unfinished */
extern int			   zaris_batch_pending(const ZarisBatch *batch);
extern ZarisClient	  *zaris_batch_client(const ZarisBatch *batch);
extern void			   zaris_batch_reset(ZarisBatch *batch); /* everything must be done; keeps some memory */
extern void			   zaris_batch_free(ZarisBatch *batch);
extern void			   zaris_batch_abandon(ZarisBatch *batch); /* frees it too */

/* version of a record's content (DESIGN 10): see version.h for the rule */

#endif /* ZARIS_CLIENT_CLIENT_H */
