/*
 * zaris_fdw.c
 *	  The door: what PostgreSQL calls first.  No logic lives here; src/README.md has the map.
 */
#include "postgres.h"

#include "access/reloptions.h"

#include "backend/compat.h"
#include "backend/settings.h"
#include "fdw/join.h"
#include "fdw/options.h"
#include "fdw/routine.h"

PG_MODULE_MAGIC_EXT(.name = "zaris_fdw", .version = "0.1");

PGDLLEXPORT void  _PG_init(void);
PGDLLEXPORT Datum zaris_fdw_handler(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum zaris_fdw_validator(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(zaris_fdw_handler);
PG_FUNCTION_INFO_V1(zaris_fdw_validator);

/* No loop, no socket, no shared state: a preloaded library is inherited by fork. */
void
_PG_init(void)
{
	zaris_settings_define();
	zaris_join_install();
}

Datum
zaris_fdw_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(zaris_routine());
}

Datum
zaris_fdw_validator(PG_FUNCTION_ARGS)
{
	zaris_options_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}
