/*
 * options.h
 *	  Every option of every object: one table, read by validator, getters, zaris_options(), docs and lint.
 *
 * The validator raises HV00D (fdw_invalid_option_name) for an unknown option, with a HINT that names the nearest one or
 * lists them, and 22023/HV024 for a bad value, naming option and what is expected; the value of `password` never
 * appears.  What needs the table's columns (roles, template columns) is checked by zaris_table_open().
 */
#ifndef ZARIS_FDW_OPTIONS_H
#define ZARIS_FDW_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "backend/session.h"

typedef enum ZarisOptionKind
{
	ZARIS_OPTION_TEXT,
	ZARIS_OPTION_URL,
	ZARIS_OPTION_INTEGER,  /* min .. max */
	ZARIS_OPTION_DURATION, /* ms inside; PostgreSQL's units */
	ZARIS_OPTION_BOOLEAN,
	ZARIS_OPTION_CHOICE,  /* one of `choices`, separated by '|' */
	ZARIS_OPTION_TEMPLATE /* a key template */
} ZarisOptionKind;

typedef struct ZarisOption
{
	const char	   *name;
	Oid				catalog; /* ForeignServerRelationId, UserMappingRelationId, ForeignTableRelationId, AttributeRelationId */
	ZarisOptionKind kind;
	const char	   *choices;
	int64			min; /* INTEGER, DURATION (ms) */
	int64			max;
	const char	   *fallback; /* default as users write it, or NULL */
	const char	   *meaning;  /* one line, for zaris_options() and the docs */
} ZarisOption;

extern const ZarisOption zaris_option_table[]; /* ends with name == NULL */

/* "server", "user mapping", "foreign table", "column" */
extern const char *zaris_option_object(Oid catalog);

extern void zaris_options_validate(List *options, Oid catalog); /* raises */

/* The value as written, or NULL. */
extern const char *zaris_option_text(List *options, const char *name);

/* Parsed; fallback when the option is not there. The validator has seen the value, so these do not fail on it. */
extern int	 zaris_option_integer(List *options, const char *name, int fallback);
extern int64 zaris_option_duration_ms(List *options, const char *name, int64 fallback);
extern bool	 zaris_option_boolean(List *options, const char *name, bool fallback);

/* The session for a server as a user: found, or opened from the catalog's options. Raises. */
extern ZarisSession *zaris_options_session(Oid serverid, Oid userid);

#endif /* ZARIS_FDW_OPTIONS_H */
