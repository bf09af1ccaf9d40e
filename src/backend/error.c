/*
 * error.c
 *	  Statuses become SQLSTATEs and messages here, and nowhere else (DESIGN 5).
 *
 * primary	what could not be done with which key of which table, and the final status' text
 * DETAIL	the last attempt's status by name, the store's own words, attempts, redirects, time, nodes
 * HINT		what helps, by status
 *
 * An application goes by the SQLSTATE, a person by the rest.  08007 is never guessed (I8): it is the core's OutcomeUnknown
 * and nothing else.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "backend/compat.h"
#include "backend/deadline.h"
#include "backend/error.h"
#include "backend/settings.h"

#define MOST_KEY   200 /* characters of a key that a message shows */
#define MOST_WORDS 200 /* ... of a store's own words */
#define MOST_NODE  100 /* ... of a node's address */

/*
 * One line a status; the table below is made over ZARIS_STATUS_LIST, so a status without its line does not compile.
 */
#define SQLSTATE_OK						ERRCODE_SUCCESSFUL_COMPLETION
#define SQLSTATE_NOT_FOUND				ERRCODE_NO_DATA_FOUND
#define SQLSTATE_CONFLICT				ERRCODE_T_R_SERIALIZATION_FAILURE
#define SQLSTATE_MOVED					ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_OWNERSHIP_CHANGING		ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_REPLICA_WRITE_REJECTED ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_MIGRATING				ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_UNAVAILABLE			ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_TOO_MANY_CLIENTS		ERRCODE_TOO_MANY_CONNECTIONS
#define SQLSTATE_CONNECT_ERROR			ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION
#define SQLSTATE_TRANSPORT_ERROR		ERRCODE_CONNECTION_FAILURE
#define SQLSTATE_DEADLINE_EXCEEDED		ERRCODE_CONNECTION_FAILURE /* or the timeout's own */
#define SQLSTATE_CIRCUIT_OPEN			ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION
#define SQLSTATE_OUTCOME_UNKNOWN		ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN
#define SQLSTATE_UNAUTHENTICATED		ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION
#define SQLSTATE_BAD_CREDENTIALS		ERRCODE_INVALID_PASSWORD
#define SQLSTATE_PERMISSION_DENIED		ERRCODE_INSUFFICIENT_PRIVILEGE
#define SQLSTATE_WRONG_TYPE				ERRCODE_DATATYPE_MISMATCH
#define SQLSTATE_OUT_OF_MEMORY			ERRCODE_OUT_OF_MEMORY
#define SQLSTATE_OUT_OF_STORAGE			ERRCODE_DISK_FULL
#define SQLSTATE_TOO_LARGE				ERRCODE_PROGRAM_LIMIT_EXCEEDED
#define SQLSTATE_INVALID_REQUEST		ERRCODE_INTERNAL_ERROR
#define SQLSTATE_PROTOCOL_ERROR			ERRCODE_PROTOCOL_VIOLATION
#define SQLSTATE_NO_MEMORY				ERRCODE_OUT_OF_MEMORY

static const int sqlstates[] = {
#define SQLSTATE_ENTRY(id, name, class, refresh, text) [ZARIS_##id] = SQLSTATE_##id,
	ZARIS_STATUS_LIST(SQLSTATE_ENTRY)
#undef SQLSTATE_ENTRY
};

/* What is told of an operation, a scan or the map; all of it but the nodes is as in ZarisOperation. */
typedef struct Report
{
	ZarisSession		 *session;
	ZarisStatus			  status;
	ZarisStatus			  last;
	const char			 *done;		  /* "could not get key ..." */
	const char			 *words;	  /* the store's, raw; "" = none */
	const ZarisOperation *operation;  /* or NULL */
	int					  slots_left; /* of a scan; 0 = nothing to say */
} Report;

int
zaris_status_sqlstate(ZarisStatus status, ZarisStatus last, bool was_reached)
{
	if ((unsigned) status >= ZARIS_STATUS_COUNT)
		status = ZARIS_PROTOCOL_ERROR;
	if (status == ZARIS_DEADLINE_EXCEEDED)
		return zaris_deadline_bound()->sqlstate;

	/* A store that was never reached is a connection that could not be made, whatever the core called it in the end. */
	if (status == ZARIS_UNAVAILABLE && last == ZARIS_CONNECT_ERROR)
		status = ZARIS_CONNECT_ERROR;

	/* One that was is a connection that was lost, though it was a new one that failed: a node of it died. */
	if (status == ZARIS_CONNECT_ERROR && was_reached)
		status = ZARIS_TRANSPORT_ERROR;
	return sqlstates[status];
}

/* "insert key "a" into foreign table "t"" */
static char *
operation_text(const ZarisOperation *operation, const char *relation)
{
	const char *verb;
	const char *preposition = "of";

	switch (operation->kind)
	{
		case ZARIS_OP_GET:
			verb = "get";
			break;
		case ZARIS_OP_PUT:
			verb = operation->precondition == ZARIS_IF_ABSENT ? "insert" : "update";
			preposition = operation->precondition == ZARIS_IF_ABSENT ? "into" : "of";
			break;
		case ZARIS_OP_DELETE:
			verb = "delete";
			break;
		default:
			return relation ? psprintf("scan foreign table \"%s\"", relation) : pstrdup("scan the store");
	}
	if (relation == NULL)
		return psprintf("%s key \"%s\"", verb, zaris_printable(operation->key.data, operation->key.len, MOST_KEY));
	return psprintf("%s key \"%s\" %s foreign table \"%s\"", verb,
					zaris_printable(operation->key.data, operation->key.len, MOST_KEY), preposition, relation);
}

/* The final status in words; a few say more than the status list can. */
static const char *
reason(const Report *report)
{
	const ZarisOperation *operation = report->operation;

	if (report->status == ZARIS_DEADLINE_EXCEEDED && report->last == ZARIS_DEADLINE_EXCEEDED)
		return psprintf("store did not answer within %s", zaris_deadline_bound()->words);
	if (report->status == ZARIS_DEADLINE_EXCEEDED)
		return psprintf("%s leaves no time for another attempt", zaris_deadline_bound()->words);
	if (report->status == ZARIS_CONFLICT && operation && operation->precondition == ZARIS_IF_ABSENT)
		return "key was created concurrently";
	return zaris_status_text(report->status);
}

static void
append_words(StringInfo detail, ZarisStatus status, const char *words)
{
	appendStringInfoString(detail, zaris_status_name(status));
	if (words != NULL && words[0] != '\0')
		appendStringInfo(detail, " (%s)", zaris_printable(words, strlen(words), MOST_WORDS));
}

/* Whom the operation was sent to; while no node has told the map, whom the server's url names. */
static void
append_nodes(StringInfo detail, const Report *report)
{
	const ZarisMap		 *map = zaris_client_map(report->session->client);
	const ZarisOperation *operation = report->operation;
	const char			 *before = " Nodes visited: ";

	for (int i = 0; operation && i < operation->n_visited; i++)
	{
		int	 id = operation->visited[i];
		char text[ZARIS_ADDRESS_TEXT];

		if (id < 0 || id >= map->now.n_nodes)
			continue;
		zaris_address_text(&map->now.nodes[id].address, text);
		appendStringInfo(detail, "%s%s", before, zaris_printable(text, strlen(text), MOST_NODE));
		before = ", ";
	}
	if (map->generation == 0)
		appendStringInfo(detail, " Nodes asked for the cluster map: %s.", report->session->seeds);
	else if (before[0] == ',')
		appendStringInfoChar(detail, '.');
}

static void
append_life(StringInfo detail, const Report *report)
{
	const ZarisOperation *operation = report->operation;
	uint64				  end = operation->finished_us ? operation->finished_us : zaris_loop_now_us();

	appendStringInfo(detail, " after %d attempt%s", operation->attempts, operation->attempts == 1 ? "" : "s");
	if (operation->hops > 0)
		appendStringInfo(detail, " and %d redirect%s", operation->hops, operation->hops == 1 ? "" : "s");
	if (operation->started_us > 0 && end >= operation->started_us)
		appendStringInfo(detail, " in %.1f ms", (end - operation->started_us) / 1000.0);
}

/* A failure to fetch the map, unless the store answers with authority or the words were said already. */
static void
append_map(StringInfo detail, const Report *report)
{
	ZarisStatus status = ZARIS_OK;
	const char *words = zaris_client_map_error(report->session->client, &status);

	if (words[0] == '\0' || (report->words != NULL && strcmp(words, report->words) == 0))
		return;
	if (zaris_status_class(report->last) != ZARIS_CLASS_TRANSIENT && report->last != ZARIS_DEADLINE_EXCEEDED)
		return;
	appendStringInfoString(detail, " The last refresh of the cluster map ended with ");
	append_words(detail, status, words);
	appendStringInfoChar(detail, '.');
}

static char *
detail_text(const Report *report)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "The last status was ");
	append_words(&detail, report->last, report->words);
	if (report->operation != NULL)
		append_life(&detail, report);
	appendStringInfoChar(&detail, '.');
	append_nodes(&detail, report);
	if (report->slots_left > 0)
		appendStringInfo(&detail, " %d slot%s not read.", report->slots_left, report->slots_left == 1 ? " was" : "s were");
	append_map(&detail, report);
	return detail.data;
}

/* The map came once in this session. */
static bool
was_reached(const Report *report)
{
	return zaris_client_map(report->session->client)->generation > 0;
}

static const char *
budget_hint(const Report *report)
{
	if (zaris_setting_disable_retries)
		return "Retries are off: zaris.disable_retries is on.";
	return "If this lasts for a failover or a slot migration only, raise max_attempts or backoff of the server.";
}

static char *
login_hint(const Report *report)
{
	const char *server = report->session->server_name;

	if (!OidIsValid(report->session->umid))
		return psprintf("Create a user mapping for server \"%s\" with a password, and with a user if the store has any.", server);
	return psprintf("Check user and password of the user mapping for server \"%s\".", server);
}

static const char *
unknown_hint(const Report *report)
{
	return "The write was sent, but its answer was lost: it may have been applied or not. "
		   "Read the key again and compare before you repeat the statement.";
}

/* NULL = none. */
static const char *
hint_text(const Report *report)
{
	switch (report->status)
	{
		case ZARIS_CONFLICT:
			return "Read the record again, then repeat the statement. What this transaction wrote before stays written.";
		case ZARIS_MOVED:
		case ZARIS_OWNERSHIP_CHANGING:
		case ZARIS_REPLICA_WRITE_REJECTED:
		case ZARIS_MIGRATING:
		case ZARIS_UNAVAILABLE:
		case ZARIS_TRANSPORT_ERROR:
			return budget_hint(report);
		case ZARIS_CONNECT_ERROR:
			if (was_reached(report))
				return budget_hint(report);
			return psprintf("Check that the nodes of server \"%s\" run and can be reached from the database server.",
							report->session->server_name);
		case ZARIS_TOO_MANY_CLIENTS:
			return "Raise maxclients of the store, or use fewer database sessions.";
		case ZARIS_DEADLINE_EXCEEDED:
			return psprintf("Raise %s if the store needs longer than that.", zaris_deadline_bound()->setting);
		case ZARIS_OUTCOME_UNKNOWN:
			return unknown_hint(report);
		case ZARIS_UNAUTHENTICATED:
		case ZARIS_BAD_CREDENTIALS:
			return login_hint(report);
		case ZARIS_PERMISSION_DENIED:
			return "Grant the store's user the command or the key that the store names, with ACL SETUSER.";
		case ZARIS_WRONG_TYPE:
			return "The foreign table's layout does not fit what the key holds.";
		case ZARIS_OUT_OF_MEMORY:
			return "Raise maxmemory of the store, or let it evict.";
		case ZARIS_OUT_OF_STORAGE:
			return "The store refuses writes until it can save to its disk again.";
		default:
			return NULL;
	}
}

pg_noreturn static void
raise_report(const Report *report)
{
	const char *hint = hint_text(report);

	ereport(ERROR,
			(errcode(zaris_status_sqlstate(report->status, report->last, was_reached(report))),
			 errmsg("could not %s: %s", report->done, reason(report)),
			 errdetail_internal("%s", detail_text(report)),
			 hint ? errhint("%s", hint) : 0));
	pg_unreachable();
}

/* Of an operation whose first attempt did not end there is none yet. */
static ZarisStatus
last_status(const ZarisOperation *operation)
{
	return operation->last_status == ZARIS_OK ? operation->status : operation->last_status;
}

void
zaris_raise_operation(ZarisSession *session, const ZarisOperation *operation, const char *relation)
{
	Report report = {
		.session = session,
		.status = operation->status,
		.last = last_status(operation),
		.done = operation_text(operation, relation),
		.words = operation->error_text,
		.operation = operation,
	};

	raise_report(&report);
}

void
zaris_raise_scan(ZarisGuard *guard, const char *relation)
{
	const ZarisScanFailure *failure = zaris_scan_failure(guard->scan);
	const ZarisOperation   *operation = failure->operation;

	Report report = {
		.session = guard->session,
		.status = failure->status,
		.last = operation ? last_status(operation) : failure->status,
		.done = relation ? psprintf("scan foreign table \"%s\"", relation) : "scan the store",
		.words = failure->text,
		.operation = operation,
		.slots_left = failure->slots_left,
	};

	raise_report(&report);
}

void
zaris_raise_map(ZarisSession *session)
{
	ZarisStatus status = ZARIS_OK;
	const char *words = zaris_client_map_error(session->client, &status);

	Report report = {
		.session = session,
		.done = psprintf("fetch the cluster map of server \"%s\"", session->server_name),
		.words = words,
	};

	/* No failure and still no map: the wait ended first. */
	report.status = report.last = words[0] == '\0' ? ZARIS_DEADLINE_EXCEEDED : status;
	raise_report(&report);
}
