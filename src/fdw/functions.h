/*
 * functions.h
 *	  The extension's SQL functions, as zaris_fdw--0.1.sql declares them.
 *
 * They are called by name from SQL only; the declarations are here for the compiler and for the reader.
 */
#ifndef ZARIS_FDW_FUNCTIONS_H
#define ZARIS_FDW_FUNCTIONS_H

#include "postgres.h"

#include "backend/compat.h"

extern PGDLLEXPORT Datum zaris_options(PG_FUNCTION_ARGS);	  /* every option there is */
extern PGDLLEXPORT Datum zaris_slot(PG_FUNCTION_ARGS);		  /* key -> slot */
extern PGDLLEXPORT Datum zaris_version(PG_FUNCTION_ARGS);	  /* a string's content version */
extern PGDLLEXPORT Datum zaris_connections(PG_FUNCTION_ARGS); /* this session's */
extern PGDLLEXPORT Datum zaris_disconnect(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum zaris_refresh_map(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum zaris_drop_store(PG_FUNCTION_ARGS);

#endif /* ZARIS_FDW_FUNCTIONS_H */
