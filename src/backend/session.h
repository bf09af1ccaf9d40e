/*
 * session.h
 *	  What one backend keeps for one user mapping of one server: a client with its connections and its map.
 *
 * Sessions live for the backend's life in TopMemoryContext, found by (server, user mapping).  A change of the
 * SERVER or USER MAPPING (syscache invalidation) marks a session stale: the next zaris_session_find() does not see
 * it, and it is closed as soon as nothing uses it.  A session that was handed out stays valid until the transaction
 * ends, whatever happens to its SERVER meanwhile; do not keep the pointer longer.  The loop is one a backend, made
 * lazily, closed in on_proc_exit (never in _PG_init: a preloaded library is inherited by fork).
 *
 * Work in flight hangs on a memory context: a ZarisGuard ties a batch or a scan to it.  When the context is reset or
 * deleted without zaris_guard_free() (ERROR, cancel, ROLLBACK TO, FATAL) the callback abandons the work, so no
 * path leaves a pointer behind, and the connections that owe replies are closed (I10).
 *
 *		session = zaris_options_session(serverid, userid);		(src/fdw/options.h: parses, then _find or _open)
 *		guard = zaris_guard_batch(session, context);
 *		... zaris_batch_submit(guard->batch, op); zaris_wait_batch(guard) ...
 *		zaris_guard_free(guard);
 */
#ifndef ZARIS_BACKEND_SESSION_H
#define ZARIS_BACKEND_SESSION_H

#include "postgres.h"

#include "lib/ilist.h"

#include "client/client.h"
#include "client/scan.h"

/* A server's and a user mapping's options, parsed. -1 = not set: the GUC holds. Strings are copied by _open. */
typedef struct ZarisSessionOptions
{
	Oid			serverid;
	Oid			umid; /* the user mapping, or InvalidOid */
	const char *server_name;
	ZarisUrl	url;
	const char *user;
	const char *password;
	int			max_attempts;
	int			backoff_ms;
	int			request_timeout_ms;
	int			connect_timeout_ms;
	int			map_refresh_wait_ms;
} ZarisSessionOptions;

typedef struct ZarisSession
{
	Oid			 serverid;
	Oid			 umid;
	char		*server_name;
	char		*store_name; /* of an embedded store; else "" */
	char		*seeds;		 /* the url's nodes, for messages; cut when they are many */
	ZarisClient *client;
	int			 max_attempts; /* -1 = the GUC, as in the options */
	int			 backoff_ms;
	int			 request_timeout_ms;
	int			 map_refresh_wait_ms;
	bool		 stale;		 /* to be closed, not to be found */
	bool		 handed_out; /* in this transaction: somebody may hold a pointer */
	int			 uses;		 /* guards that point here */

	/* session.c's own */
	dlist_node	  node;
	MemoryContext context;
	uint32		  server_hash; /* what a syscache invalidation names */
	uint32		  mapping_hash;
} ZarisSession;

typedef struct ZarisGuard
{
	ZarisSession		 *session;
	ZarisBatch			 *batch; /* one of the two; both NULL once freed or abandoned */
	ZarisScan			 *scan;
	MemoryContextCallback callback;
} ZarisGuard;

extern ZarisSession *zaris_session_find(Oid serverid, Oid umid);			 /* NULL = none, or stale */
extern ZarisSession *zaris_session_open(const ZarisSessionOptions *options); /* raises */

/*
 * The policy of this moment (options, then GUCs, then disable_retries) is given to the client by both of these.  The
 * guard itself, some 80 bytes, stays in the context until that is reset.
 */
extern ZarisGuard *zaris_guard_batch(ZarisSession *session, MemoryContext context); /* raises when out of memory */
extern ZarisGuard *zaris_guard_scan(ZarisSession *session, MemoryContext context, const ZarisScanRequest *request);
extern void		   zaris_guard_free(ZarisGuard *guard); /* the normal end, also an early one (LIMIT); may be called twice */

/*
 * Close sessions of a server (InvalidOid: all) that were not handed out in this transaction; the number closed.
 * Others become stale, and are closed when the transaction ends.
 */
extern int zaris_session_close(Oid serverid);

typedef void (*ZarisSessionVisitor)(ZarisSession *session, void *context);
extern void zaris_session_each(ZarisSessionVisitor visit, void *context); /* also stale ones */

/* wait.c: after every wait, count the sockets for fd.c. */
extern void zaris_session_account(void);

#endif /* ZARIS_BACKEND_SESSION_H */
