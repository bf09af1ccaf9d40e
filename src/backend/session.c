/*
 * session.c
 *	  Sessions and guards: see session.h.
 *
 * A session is in one of three states:
 *
 *		current		found by zaris_session_find()
 *		stale		its SERVER or USER MAPPING changed, or somebody disconnected it: not found any more, but whoever
 *					holds it may go on with it
 *		closed		gone, with its connections
 *
 * stale becomes closed when no guard points to it and the transaction that it was handed out in has ended.  An
 * invalidation can arrive in the middle of any catalog access, so its callback only marks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "storage/ipc.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "backend/compat.h"
#include "backend/host.h"
#include "backend/session.h"
#include "backend/settings.h"
#include "backend/writerlock.h"

#define MS		   UINT64_C(1000)
#define MOST_SEEDS 6 /* that a message names */

/* A backend has few sessions: a list is faster than a hash, and holds stale ones beside their successors. */
static dlist_head sessions = DLIST_STATIC_INIT(sessions);

/* The process is ending and sessions are gone, but memory contexts may still be reset. */
static bool exiting = false;

static void
close_session(ZarisSession *session)
{
	dlist_delete(&session->node);
	zaris_client_close(session->client);
	MemoryContextDelete(session->context);
}

static bool
is_closable(const ZarisSession *session)
{
	return session->uses == 0 && !session->handed_out;
}

/* hash 0: everything may have changed. */
static bool
is_hit(const ZarisSession *session, int cacheid, uint32 hash)
{
	if (cacheid == FOREIGNSERVEROID)
		return hash == 0 || hash == session->server_hash;

	/* A session that has no mapping may be about to get one, with a hash that nobody knows yet. */
	return hash == 0 || hash == session->mapping_hash || !OidIsValid(session->umid);
}

static void
at_invalidation(Datum arg, int cacheid, uint32 hash)
{
	dlist_iter iter;

	dlist_foreach(iter, &sessions)
	{
		ZarisSession *session = dlist_container(ZarisSession, node, iter.cur);

		if (is_hit(session, cacheid, hash))
			session->stale = true;
	}
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	dlist_mutable_iter iter;

	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		return;

	dlist_foreach_modify(iter, &sessions)
	{
		ZarisSession *session = dlist_container(ZarisSession, node, iter.cur);

		session->handed_out = false;
		if (session->stale && is_closable(session))
			close_session(session);
	}
	zaris_session_account();
}

/*
 * on_proc_exit and not before_shmem_exit: the latter's late callbacks run before the last transaction is aborted, and
 * the guards' callbacks would meet closed sessions.
 */
static void
at_exit(int code, Datum arg)
{
	dlist_mutable_iter iter;

	exiting = true;
	dlist_foreach_modify(iter, &sessions)
		close_session(dlist_container(ZarisSession, node, iter.cur));
	zaris_host_destroy_loop();
}

static void
register_callbacks(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, at_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, at_invalidation, (Datum) 0);
	RegisterXactCallback(at_transaction_event, NULL);
	on_proc_exit(at_exit, (Datum) 0);
	registered = true;
}

ZarisSession *
zaris_session_find(Oid serverid, Oid umid)
{
	dlist_iter iter;

	dlist_foreach(iter, &sessions)
	{
		ZarisSession *session = dlist_container(ZarisSession, node, iter.cur);

		if (session->serverid != serverid || session->umid != umid || session->stale)
			continue;
		session->handed_out = true;
		return session;
	}
	return NULL;
}

static char *
describe_seeds(const ZarisUrl *url, MemoryContext context)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < url->n_seeds && i < MOST_SEEDS; i++)
	{
		char address[ZARIS_ADDRESS_TEXT];

		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", zaris_address_text(&url->seeds[i], address));
	}
	if (url->n_seeds > MOST_SEEDS)
		appendStringInfoString(&text, ", ...");
	return MemoryContextStrdup(context, text.data);
}

static ZarisClient *
open_client(const ZarisSessionOptions *options)
{
	const ZarisStoreDriver *driver = zaris_store_driver(options->url.scheme);
	ZarisLoop			   *loop = zaris_host_loop();
	ZarisClient			   *client;
	const char			   *problem = NULL;

	ZarisClientOptions wanted = {
		.url = options->url,
		.user = options->user,
		.password = options->password,
		.client_name = "zaris_fdw",
		.directory = zaris_store_directory(),
		.connect_timeout_us = options->connect_timeout_ms * MS,
		.map_refresh_wait_us = zaris_setting_map_refresh_wait * MS, /* until the first guard is made */
	};

	if (driver == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the kind of store of server \"%s\" is not supported by this version of zaris_fdw",
						options->server_name)));

	client = zaris_client_open(driver, &wanted, zaris_host(), loop, &problem);
	if (client == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
				 errmsg("could not open the store of server \"%s\"", options->server_name),
				 problem ? errdetail("%s", problem) : 0));
	return client;
}

ZarisSession *
zaris_session_open(const ZarisSessionOptions *options)
{
	MemoryContext context;
	ZarisSession *session;

	register_callbacks();

	/* Everything that may raise comes before the client, which no memory context owns. */
	context = AllocSetContextCreate(CurrentMemoryContext, "zaris session", ALLOCSET_SMALL_SIZES);
	session = MemoryContextAllocZero(context, sizeof(ZarisSession));
	session->context = context;
	session->serverid = options->serverid;
	session->umid = options->umid;
	session->server_name = MemoryContextStrdup(context, options->server_name);
	session->seeds = describe_seeds(&options->url, context);
	session->max_attempts = options->max_attempts;
	session->backoff_ms = options->backoff_ms;
	session->request_timeout_ms = options->request_timeout_ms;
	session->map_refresh_wait_ms = options->map_refresh_wait_ms;
	session->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(options->serverid));
	session->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(options->umid));
	session->store_name = MemoryContextStrdup(context, options->url.name);
	session->client = open_client(options);
	session->handed_out = true;

	MemoryContextSetParent(context, TopMemoryContext);
	dlist_push_head(&sessions, &session->node);
	return session;
}

static void
apply_policy(ZarisSession *session)
{
	int backoff_ms = session->backoff_ms >= 0 ? session->backoff_ms : zaris_setting_backoff;
	int refresh_wait_ms = session->map_refresh_wait_ms >= 0 ? session->map_refresh_wait_ms : zaris_setting_map_refresh_wait;

	ZarisRetryPolicy policy = {
		.max_attempts = session->max_attempts >= 0 ? session->max_attempts : zaris_setting_max_attempts,
		.backoff_us = backoff_ms * MS,
		.disabled = zaris_setting_disable_retries,
	};

	zaris_client_set_policy(session->client, &policy);
	zaris_client_set_map_refresh_wait(session->client, refresh_wait_ms * MS);
}

static bool
is_live(const ZarisGuard *guard)
{
	return guard->batch != NULL || guard->scan != NULL;
}

static void
release_session(ZarisSession *session)
{
	session->uses--;
	if (session->stale && is_closable(session))
		close_session(session);
}

/*
 * The context is reset while work is in flight: an error, a cancel, ROLLBACK TO, or a FATAL.  Nobody will come for the
 * replies, so the connections that owe them are closed (I10).  Must not fail.
 */
static void
abandon_guard(void *arg)
{
	ZarisGuard *guard = arg;
	ZarisBatch *batch = guard->batch;
	ZarisScan  *scan = guard->scan;

	if (exiting || !is_live(guard))
		return;
	guard->batch = NULL;
	guard->scan = NULL;
	if (batch != NULL)
		zaris_batch_abandon(batch);
	if (scan != NULL)
		zaris_scan_abandon(scan);
	release_session(guard->session);
}

/* Raises, if at all, before there is a batch or scan that would need a guard. */
static ZarisGuard *
make_guard(ZarisSession *session, MemoryContext context)
{
	ZarisGuard *guard = MemoryContextAllocZero(context, sizeof(ZarisGuard));

	guard->session = session;
	guard->callback.func = abandon_guard;
	guard->callback.arg = guard;
	apply_policy(session);
	return guard;
}

static void
raise_out_of_memory(const ZarisSession *session)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while preparing a request to server \"%s\".", session->server_name)));
}

static void
arm_guard(ZarisGuard *guard, MemoryContext context)
{
	guard->session->uses++;
	MemoryContextRegisterResetCallback(context, &guard->callback);
}

ZarisGuard *
zaris_guard_batch(ZarisSession *session, MemoryContext context)
{
	ZarisGuard *guard = make_guard(session, context);

	guard->batch = zaris_batch_create(session->client);
	if (guard->batch == NULL)
		raise_out_of_memory(session);
	arm_guard(guard, context);
	return guard;
}

ZarisGuard *
zaris_guard_scan(ZarisSession *session, MemoryContext context, const ZarisScanRequest *request)
{
	ZarisGuard *guard = make_guard(session, context);

	guard->scan = zaris_scan_begin(session->client, request);
	if (guard->scan == NULL)
		raise_out_of_memory(session);
	arm_guard(guard, context);
	return guard;
}

void
zaris_guard_free(ZarisGuard *guard)
{
	ZarisBatch *batch = guard->batch;
	ZarisScan  *scan = guard->scan;

	if (!is_live(guard))
		return;
	guard->batch = NULL;
	guard->scan = NULL;
	if (batch != NULL)
		zaris_batch_free(batch);
	if (scan != NULL)
		zaris_scan_end(scan);
	release_session(guard->session);
}

int
zaris_session_close(Oid serverid)
{
	dlist_mutable_iter iter;
	int				   closed = 0;

	dlist_foreach_modify(iter, &sessions)
	{
		ZarisSession *session = dlist_container(ZarisSession, node, iter.cur);

		if (OidIsValid(serverid) && session->serverid != serverid)
			continue;
		session->stale = true;
		if (!is_closable(session))
			continue;
		close_session(session);
		closed++;
	}
	zaris_session_account();
	return closed;
}

void
zaris_session_each(ZarisSessionVisitor visit, void *context)
{
	dlist_iter iter;

	dlist_foreach(iter, &sessions)
		visit(dlist_container(ZarisSession, node, iter.cur), context);
}

void
zaris_session_account(void)
{
	dlist_iter iter;
	int		   open = 0;

	dlist_foreach(iter, &sessions)
		open += zaris_client_connections(dlist_container(ZarisSession, node, iter.cur)->client);
	zaris_host_account_sockets(open);
}
