/*
 * options.c
 *	  Every option of every object: see options.h.
 *
 * One table says what there is; a second, short one says what later versions will have, so that nobody who follows
 * their documentation is left with "invalid option", and nothing is accepted that has no effect.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "catalog/pg_authid.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "backend/compat.h"
#include "fdw/options.h"
#include "fdw/table.h"

#define SERVER	ForeignServerRelationId
#define MAPPING UserMappingRelationId
#define TABLE	ForeignTableRelationId
#define COLUMN	AttributeRelationId

#define YEAR_MS INT64_C(31557600000)

#define CONNECT_TIMEOUT_MS 5000

const ZarisOption zaris_option_table[] = {
	{"url", SERVER, ZARIS_OPTION_URL, NULL, 0, 0, "zaris://inproc/main",
	 "where the store is: zaris://inproc/NAME, redis://host[:port],...[/database], valkey:// likewise, or unix:///path"},
	{"max_attempts", SERVER, ZARIS_OPTION_INTEGER, NULL, 1, 1000, "3",
	 "how often an operation is sent at most"},
	{"backoff", SERVER, ZARIS_OPTION_DURATION, NULL, 0, 60000, "100ms",
	 "pause before an operation is sent again, multiplied by the number of attempts so far"},
	{"request_timeout", SERVER, ZARIS_OPTION_DURATION, NULL, 0, INT_MAX, "60s",
	 "longest wait for an answer, retries included; 0 = none"},
	{"connect_timeout", SERVER, ZARIS_OPTION_DURATION, NULL, 1, INT_MAX, "5s",
	 "longest time to connect to a node and to log in"},
	{"map_refresh_wait", SERVER, ZARIS_OPTION_DURATION, NULL, 0, INT_MAX, "15s",
	 "longest time that an operation waits for a newer cluster map"},
	{"fetch_size", SERVER, ZARIS_OPTION_INTEGER, NULL, 1, 1000000, "1000",
	 "keys that a scan asks a node for at once"},
	{"batch_size", SERVER, ZARIS_OPTION_INTEGER, NULL, 1, 1000000, "1000",
	 "operations in flight at once"},

	{"user", MAPPING, ZARIS_OPTION_TEXT, NULL, 0, 0, NULL,
	 "name to log in to the store with"},
	{"password", MAPPING, ZARIS_OPTION_TEXT, NULL, 0, 0, NULL,
	 "password to log in to the store with"},
	{"password_required", MAPPING, ZARIS_OPTION_BOOLEAN, NULL, 0, 0, "true",
	 "whether a user who is no superuser needs a password; only a superuser may set it to false"},

	{"key", TABLE, ZARIS_OPTION_TEMPLATE, NULL, 0, 0, NULL,
	 "template of the table's keys: literal text and <column>; << is a literal <; required"},
	{"layout", TABLE, ZARIS_OPTION_CHOICE, "string|hash", 0, 0, "string",
	 "what a key holds: one value, or a hash with a field for each column"},
	{"versioning", TABLE, ZARIS_OPTION_CHOICE, "content", 0, 0, "content",
	 "what a record's version is made from; an embedded store counts its writes instead"},
	{"write_mode", TABLE, ZARIS_OPTION_CHOICE, "immediate", 0, 0, "immediate",
	 "when writes are sent: as the statement runs"},
	{"read_only", TABLE, ZARIS_OPTION_BOOLEAN, NULL, 0, 0, "false",
	 "whether the table refuses INSERT, UPDATE, DELETE and TRUNCATE"},
	{"ttl", TABLE, ZARIS_OPTION_DURATION, NULL, 1, 100 * YEAR_MS, NULL,
	 "expiry given to new records that say none of their own"},
	{"fetch_size", TABLE, ZARIS_OPTION_INTEGER, NULL, 1, 1000000, NULL,
	 "as for the server, which it overrides"},
	{"batch_size", TABLE, ZARIS_OPTION_INTEGER, NULL, 1, 1000000, NULL,
	 "as for the server, which it overrides"},

	{"role", COLUMN, ZARIS_OPTION_CHOICE, "value|version|expires_at", 0, 0, NULL,
	 "what the column is, where its name does not say it"},
	{"field", COLUMN, ZARIS_OPTION_TEXT, NULL, 0, 0, NULL,
	 "name of the hash field (the column's name)"},

	{NULL, InvalidOid, ZARIS_OPTION_TEXT, NULL, 0, 0, NULL, NULL}};

/* What is designed but not built yet: options, and values of options (value not NULL). */
static const struct
{
	Oid			catalog;
	const char *name;
	const char *value;
} later[] =
	{
		{SERVER, "breaker", NULL},
		{SERVER, "breaker_failures", NULL},
		{SERVER, "breaker_timeouts", NULL},
		{SERVER, "breaker_window", NULL},
		{SERVER, "breaker_open", NULL},
		{SERVER, "breaker_open_max", NULL},
		{SERVER, "breaker_successes", NULL},
		{SERVER, "read_from", NULL},
		{SERVER, "sslmode", NULL},
		{SERVER, "sslrootcert", NULL},
		{SERVER, "sslcert", NULL},
		{SERVER, "sslkey", NULL},
		{TABLE, "read_from", NULL},
		{TABLE, "layout", "json"},
		{TABLE, "versioning", "counter"},
		{TABLE, "write_mode", "deferred"},
};

const char *
zaris_option_object(Oid catalog)
{
	switch (catalog)
	{
		case SERVER:
			return "server";
		case MAPPING:
			return "user mapping";
		case TABLE:
			return "foreign table";
		case COLUMN:
			return "column";
		default:
			return "foreign-data wrapper";
	}
}

static const ZarisOption *
find_option(const char *name, Oid catalog)
{
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
		if (option->catalog == catalog && strcmp(option->name, name) == 0)
			return option;
	return NULL;
}

/*
 * Unknown options
 */

/* The option of the object whose name is nearest, if it is near at all: not more than half of the letters differ. */
static const char *
nearest_option(const char *name, Oid catalog)
{
	int			len = strlen(name);
	int			best = Min(4, len / 2) + 1;
	const char *nearest = NULL;

	if (len >= NAMEDATALEN)
		return NULL;
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
	{
		int distance;

		if (option->catalog != catalog)
			continue;
		distance = varstr_levenshtein_less_equal(name, len, option->name, strlen(option->name), 1, 1, 1, best, true);
		if (distance >= best)
			continue;
		best = distance;
		nearest = option->name;
	}
	return nearest;
}

static char *
list_options(Oid catalog)
{
	StringInfoData list;

	initStringInfo(&list);
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
		if (option->catalog == catalog)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", option->name);
	return list.data;
}

/* Where else the very name is at home: credentials in a SERVER are the mistake that everybody makes once. */
static const char *
other_home(const char *name)
{
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
		if (strcmp(option->name, name) == 0)
			return zaris_option_object(option->catalog);
	return NULL;
}

static const char *
unknown_option_hint(const char *name, Oid catalog)
{
	const char *home = other_home(name);
	const char *nearest = nearest_option(name, catalog);
	const char *all = list_options(catalog);

	if (home != NULL)
		return psprintf("It is an option of a %s.", home);
	if (nearest != NULL)
		return psprintf("Perhaps you meant the option \"%s\".", nearest);
	if (all[0] != '\0')
		return psprintf("Valid options in this context are: %s.", all);
	return "There are no valid options in this context.";
}

static void
refuse_later(const char *name, const char *value, Oid catalog)
{
	for (int i = 0; i < lengthof(later); i++)
	{
		if (later[i].catalog != catalog || strcmp(later[i].name, name) != 0)
			continue;
		if (later[i].value == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("option \"%s\" of a %s is not supported by this version of zaris_fdw", name, zaris_option_object(catalog))));
		if (strcmp(later[i].value, value) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("value \"%s\" of option \"%s\" is not supported by this version of zaris_fdw", value, name)));
	}
}

/*
 * Values.  Parsers raise; the getters use them too, and never see what the validator has not.
 */

static void
raise_value(const char *name, const char *value, const char *expected, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 errdetail_internal("%s", expected),
			 hint ? errhint("%s", _(hint)) : 0));
}

static int
parse_integer(const ZarisOption *option, const char *value)
{
	int result;

	if (!parse_int(value, &result, 0, NULL) || result < option->min || result > option->max)
		raise_value(option->name, value,
					psprintf("Expected a number between " INT64_FORMAT " and " INT64_FORMAT ".", option->min, option->max), NULL);
	return result;
}

/* parse_real and not parse_int: a ttl of a month in milliseconds does not fit an int. */
static int64
parse_duration(const ZarisOption *option, const char *value)
{
	double		result;
	const char *hint = NULL;

	/* written so that a NaN is out of bounds */
	if (!parse_real(value, &result, GUC_UNIT_MS, &hint) || !(result >= option->min && result <= option->max))
		raise_value(option->name, value,
					psprintf("Expected a duration between " INT64_FORMAT " ms and " INT64_FORMAT " ms, such as \"250ms\" or \"15s\".",
							 option->min, option->max),
					hint);
	return (int64) rint(result);
}

static bool
parse_boolean(const ZarisOption *option, const char *value)
{
	bool result;

	if (!parse_bool(value, &result))
		raise_value(option->name, value, "Expected a Boolean value.", NULL);
	return result;
}

static void
check_choice(const ZarisOption *option, const char *value)
{
	size_t len = strlen(value);

	for (const char *choice = option->choices; choice != NULL;)
	{
		const char *bar = strchr(choice, '|');
		size_t		choice_len = bar ? (size_t) (bar - choice) : strlen(choice);

		if (choice_len == len && strncmp(choice, value, len) == 0)
			return;
		choice = bar ? bar + 1 : NULL;
	}
	raise_value(option->name, value, psprintf("Expected one of: %s.", option->choices), NULL);
}

/* The value is not repeated: somebody may have put a password into it. */
static void
parse_url(const char *value, ZarisUrl *url)
{
	const char *problem = NULL;

	if (!zaris_url_parse(value, url, &problem))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"url\""),
				 errdetail_internal("%s", problem)));
	if (zaris_store_driver(url->scheme) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the scheme in option \"url\" is not supported by this version of zaris_fdw"),
				 errhint("Use a url that begins with zaris://inproc/, redis://, valkey:// or unix://.")));
}

static void
check_template(const ZarisOption *option, const char *value)
{
	const char *problem = NULL;

	if (!zaris_template_check(value, &problem))
		raise_value(option->name, value, problem, NULL);
}

static void
check_text(const ZarisOption *option, const char *value)
{
	/* An empty field name is legal in a hash, an empty password means none; an empty user means a mistake. */
	if (strcmp(option->name, "user") == 0 && value[0] == '\0')
		raise_value(option->name, value, "Expected a name.", NULL);
}

static void
check_value(const ZarisOption *option, const char *value)
{
	ZarisUrl url;

	switch (option->kind)
	{
		case ZARIS_OPTION_TEXT:
			check_text(option, value);
			break;
		case ZARIS_OPTION_URL:
			parse_url(value, &url);
			break;
		case ZARIS_OPTION_INTEGER:
			(void) parse_integer(option, value);
			break;
		case ZARIS_OPTION_DURATION:
			(void) parse_duration(option, value);
			break;
		case ZARIS_OPTION_BOOLEAN:
			(void) parse_boolean(option, value);
			break;
		case ZARIS_OPTION_CHOICE:
			check_choice(option, value);
			break;
		case ZARIS_OPTION_TEMPLATE:
			check_template(option, value);
			break;
	}
}

/*
 * Whoever may use a server without a password of his own uses it as the database server, from its address and past
 * whatever lets only that address in.  That is a superuser's to allow.
 */
static void
check_password_required(List *options)
{
	if (zaris_option_boolean(options, "password_required", true) || superuser())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to set option \"password_required\" to false"),
			 errdetail("Only superusers may create or alter a user mapping that needs no password.")));
}

/* The default is the embedded store: it works with PostgreSQL alone. */
static void
server_url(List *options, ZarisUrl *url)
{
	const char *text = zaris_option_text(options, "url");

	parse_url(text ? text : find_option("url", SERVER)->fallback, url);
}

/*
 * An embedded store is files on the server's disk, whoever asks.  Its name is no path, but it can fill the disk.
 */
static void
check_embedded(List *options)
{
	ZarisUrl url;

	server_url(options, &url);
	if (url.scheme != ZARIS_SCHEME_INPROC || superuser() ||
		has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to create or alter a server with an embedded store"),
			 errdetail("Only superusers and members of pg_write_server_files may, since the store is files on the server's disk."),
			 errhint("Give the server a url that begins with redis://, valkey:// or unix:// to use a store of another process.")));
}

static void
check_required(List *options, Oid catalog)
{
	if (catalog == TABLE && zaris_option_text(options, "key") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
				 errmsg("option \"key\" is required for foreign tables of zaris_fdw"),
				 errhint("Add OPTIONS (key 'prefix:<column>').")));
}

void
zaris_options_validate(List *options, Oid catalog)
{
	ListCell *cell;

	foreach (cell, options)
	{
		DefElem			  *def = lfirst(cell);
		char			  *value = defGetString(def);
		const ZarisOption *option = find_option(def->defname, catalog);

		refuse_later(def->defname, value, catalog);
		if (option == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\" for a %s", def->defname, zaris_option_object(catalog)),
					 errhint("%s", unknown_option_hint(def->defname, catalog))));
		check_value(option, value);
	}
	check_required(options, catalog);
	if (catalog == SERVER)
		check_embedded(options);
	if (catalog == MAPPING)
		check_password_required(options);
}

/*
 * Getters
 */

const char *
zaris_option_text(List *options, const char *name)
{
	ListCell *cell;

	foreach (cell, options)
	{
		DefElem *def = lfirst(cell);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

/* What a name means as a number is the same for all objects that have it. */
static const ZarisOption *
option_of_kind(const char *name, ZarisOptionKind kind)
{
	for (const ZarisOption *option = zaris_option_table; option->name != NULL; option++)
		if (option->kind == kind && strcmp(option->name, name) == 0)
			return option;
	elog(ERROR, "no option \"%s\" of that kind", name);
	return NULL; /* keep the compiler quiet */
}

int
zaris_option_integer(List *options, const char *name, int fallback)
{
	const char *value = zaris_option_text(options, name);

	return value ? parse_integer(option_of_kind(name, ZARIS_OPTION_INTEGER), value) : fallback;
}

int64
zaris_option_duration_ms(List *options, const char *name, int64 fallback)
{
	const char *value = zaris_option_text(options, name);

	return value ? parse_duration(option_of_kind(name, ZARIS_OPTION_DURATION), value) : fallback;
}

bool
zaris_option_boolean(List *options, const char *name, bool fallback)
{
	const char *value = zaris_option_text(options, name);

	return value ? parse_boolean(option_of_kind(name, ZARIS_OPTION_BOOLEAN), value) : fallback;
}

/*
 * Sessions
 */

/*
 * The user's own mapping, else PUBLIC's, else NULL: GetUserMapping() would raise, but a superuser needs none for a
 * store without login.  The caller releases it.
 */
static HeapTuple
find_mapping(Oid serverid, Oid userid)
{
	HeapTuple tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid), ObjectIdGetDatum(serverid));

	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
	return HeapTupleIsValid(tuple) ? tuple : NULL;
}

static List *
mapping_options(HeapTuple mapping)
{
	bool  isnull;
	Datum options;

	if (mapping == NULL)
		return NIL;
	options = SysCacheGetAttr(USERMAPPINGUSERSERVER, mapping, Anum_pg_user_mapping_umoptions, &isnull);
	return isnull ? NIL : untransformRelOptions(options);
}

/*
 * Asked each time and not only when a session is opened: a PUBLIC mapping's session serves superusers and others in
 * one backend.
 */
static void
check_password(Oid serverid, Oid userid, List *options)
{
	const char *password = zaris_option_text(options, "password");
	ZarisUrl	url;

	if (superuser_arg(userid) || (password != NULL && password[0] != '\0') ||
		!zaris_option_boolean(options, "password_required", true))
		return;

	/* No login, no way past one: who may use the server may use an embedded store. */
	server_url(GetForeignServer(serverid)->options, &url);
	if (url.scheme == ZARIS_SCHEME_INPROC)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required"),
			 errdetail("Users who are not superusers must have a password in their user mapping."),
			 errhint("Set it there, or let a superuser set the mapping's option password_required to false.")));
}

static ZarisSession *
open_session(Oid serverid, Oid umid, List *mapping)
{
	ForeignServer	   *server = GetForeignServer(serverid);
	ZarisSessionOptions options = {
		.serverid = serverid,
		.umid = umid,
		.server_name = server->servername,
		.user = zaris_option_text(mapping, "user"),
		.password = zaris_option_text(mapping, "password"),
		.max_attempts = zaris_option_integer(server->options, "max_attempts", -1),
		.backoff_ms = (int) zaris_option_duration_ms(server->options, "backoff", -1),
		.request_timeout_ms = (int) zaris_option_duration_ms(server->options, "request_timeout", -1),
		.connect_timeout_ms = (int) zaris_option_duration_ms(server->options, "connect_timeout", CONNECT_TIMEOUT_MS),
		.map_refresh_wait_ms = (int) zaris_option_duration_ms(server->options, "map_refresh_wait", -1),
	};

	server_url(server->options, &options.url);
	if (options.password != NULL && options.password[0] == '\0')
		options.password = NULL;
	return zaris_session_open(&options);
}

ZarisSession *
zaris_options_session(Oid serverid, Oid userid)
{
	HeapTuple	  mapping = find_mapping(serverid, userid);
	Oid			  umid = mapping ? ((Form_pg_user_mapping) GETSTRUCT(mapping))->oid : InvalidOid;
	List		 *options = mapping_options(mapping);
	ZarisSession *session;

	if (mapping != NULL)
		ReleaseSysCache(mapping);
	check_password(serverid, userid, options);
	session = zaris_session_find(serverid, umid);
	return session ? session : open_session(serverid, umid, options);
}
