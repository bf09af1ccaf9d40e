/*
 * functions.c
 *	  SQL functions: what there is to know about options, keys, versions and this session's connections.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_user_mapping.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "backend/wait.h"
#include "backend/writerlock.h"
#include "client/version.h"
#include "fdw/functions.h"
#include "fdw/options.h"
#include "fdw/routine.h"

PG_FUNCTION_INFO_V1(zaris_options);
PG_FUNCTION_INFO_V1(zaris_slot);
PG_FUNCTION_INFO_V1(zaris_version);
PG_FUNCTION_INFO_V1(zaris_connections);
PG_FUNCTION_INFO_V1(zaris_disconnect);
PG_FUNCTION_INFO_V1(zaris_refresh_map);
PG_FUNCTION_INFO_V1(zaris_drop_store);

static Datum
text_or_null(const char *text, bool *isnull)
{
	*isnull = text == NULL;
	return text ? CStringGetTextDatum(text) : (Datum) 0;
}

/*
 * zaris_options()
 */

static const char *
kind_of(ZarisOptionKind kind)
{
	switch (kind)
	{
		case ZARIS_OPTION_URL:
			return "url";
		case ZARIS_OPTION_INTEGER:
			return "integer";
		case ZARIS_OPTION_DURATION:
			return "duration";
		case ZARIS_OPTION_BOOLEAN:
			return "boolean";
		case ZARIS_OPTION_CHOICE:
			return "choice";
		case ZARIS_OPTION_TEMPLATE:
			return "key template";
		case ZARIS_OPTION_TEXT:
			break;
	}
	return "text";
}

static const char *
allowed_values(const ZarisOption *option)
{
	switch (option->kind)
	{
		case ZARIS_OPTION_INTEGER:
			return psprintf(INT64_FORMAT " .. " INT64_FORMAT, option->min, option->max);
		case ZARIS_OPTION_DURATION:
			return psprintf(INT64_FORMAT "ms .. " INT64_FORMAT "ms", option->min, option->max);
		case ZARIS_OPTION_CHOICE:
			return option->choices;
		default:
			return NULL;
	}
}

Datum
zaris_options(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
	{
		Datum values[6];
		bool  nulls[6] = {false};

		values[0] = CStringGetTextDatum(zaris_option_object(option->catalog));
		values[1] = CStringGetTextDatum(option->name);
		values[2] = CStringGetTextDatum(kind_of(option->kind));
		values[3] = text_or_null(allowed_values(option), &nulls[3]);
		values[4] = text_or_null(option->fallback, &nulls[4]);
		values[5] = CStringGetTextDatum(option->meaning);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Pure ones.  Declared for bytea and for text, which differ in SQL only: both are the bytes as they lie in the store.
 */

Datum
zaris_slot(PG_FUNCTION_ARGS)
{
	struct varlena		   *key = PG_GETARG_VARLENA_PP(0);
	const ZarisStoreDriver *driver = zaris_store_driver(ZARIS_SCHEME_RESP);

	PG_RETURN_INT32(driver->slot(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)));
}

Datum
zaris_version(PG_FUNCTION_ARGS)
{
	struct varlena *content = PG_GETARG_VARLENA_PP(0);
	int64			version;

	if (!zaris_version_string(VARDATA_ANY(content), VARSIZE_ANY_EXHDR(content), &version))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute a version"),
				 errdetail("SHA-1 is not available in libcrypto.")));
	PG_RETURN_INT64(version);
}

/*
 * zaris_connections
 */

/* "public" for PUBLIC; NULL without a mapping, or when it is gone. */
static const char *
mapping_user(Oid umid)
{
	HeapTuple tuple = SearchSysCache1(USERMAPPINGOID, ObjectIdGetDatum(umid));
	Oid		  user;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	user = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser;
	ReleaseSysCache(tuple);
	return OidIsValid(user) ? GetUserNameFromId(user, true) : "public";
}

static void
collect_session(ZarisSession *session, void *context)
{
	List **all = context;

	*all = lappend(*all, session);
}

Datum
zaris_connections(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	List		  *all = NIL;
	ListCell	  *cell;

	InitMaterializedSRF(fcinfo, 0);
	zaris_session_each(collect_session, &all);
	foreach (cell, all)
	{
		ZarisSession *session = lfirst(cell);
		Datum		  values[5];
		bool		  nulls[5] = {false};

		values[0] = CStringGetTextDatum(session->server_name);
		values[1] = text_or_null(mapping_user(session->umid), &nulls[1]);
		values[2] = Int32GetDatum(zaris_client_connections(session->client));
		values[3] = BoolGetDatum(session->uses > 0);
		values[4] = BoolGetDatum(!session->stale);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Functions that take a server
 */

static Oid
server_argument(FunctionCallInfo fcinfo)
{
	char		  *name = NameStr(*PG_GETARG_NAME(0));
	ForeignServer *server = GetForeignServerByName(name, false);

	if (!zaris_routine_is_of_server(server->serverid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a server of zaris_fdw", name)));
	return server->serverid;
}

Datum
zaris_disconnect(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(zaris_session_close(server_argument(fcinfo)));
}

Datum
zaris_refresh_map(PG_FUNCTION_ARGS)
{
	Oid			  serverid = server_argument(fcinfo);
	AclResult	  allowed = object_aclcheck(ForeignServerRelationId, serverid, GetUserId(), ACL_USAGE);
	ZarisSession *session;

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FOREIGN_SERVER, NameStr(*PG_GETARG_NAME(0)));
	session = zaris_options_session(serverid, GetUserId());
	if (!zaris_wait_map(session, zaris_client_map(session->client)->generation))
		zaris_raise_map(session);
	PG_RETURN_INT64((int64) zaris_client_map(session->client)->generation);
}

/*
 * zaris_drop_store()
 */

/* This session's own connections to the store would be in the way. */
static void
close_sessions_of(const char *name)
{
	List	 *all = NIL;
	ListCell *cell;

	zaris_session_each(collect_session, &all);
	foreach (cell, all)
	{
		ZarisSession *session = lfirst(cell);

		if (strcmp(session->store_name, name) == 0)
			(void) zaris_session_close(session->serverid);
	}
}

Datum
zaris_drop_store(PG_FUNCTION_ARGS)
{
	char				   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const ZarisStoreDriver *driver = zaris_store_driver(ZARIS_SCHEME_INPROC);
	const char			   *problem = NULL;
	ZarisStatus				status;

	if (!superuser() && !has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to drop an embedded store"),
				 errdetail("Only superusers and members of pg_write_server_files may.")));

	close_sessions_of(name);
	status = driver->drop(zaris_store_directory(), name, &problem);
	if (status == ZARIS_OK)
		PG_RETURN_VOID();
	ereport(ERROR,
			(errcode(status == ZARIS_NOT_FOUND ? ERRCODE_UNDEFINED_OBJECT : status == ZARIS_UNAVAILABLE ? ERRCODE_OBJECT_IN_USE
																										: ERRCODE_IO_ERROR),
			 errmsg("could not drop store \"%s\"", name),
			 problem ? errdetail_internal("%s", problem) : 0,
			 status == ZARIS_UNAVAILABLE ? errhint("End the sessions that use it, or let them call zaris_disconnect().") : 0));
}
