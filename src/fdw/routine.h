/*
 * routine.h
 *	  The table of callbacks that PostgreSQL's planner and executor call.
 */
#ifndef ZARIS_FDW_ROUTINE_H
#define ZARIS_FDW_ROUTINE_H

#include "postgres.h"

#include "foreign/fdwapi.h"

/* A new table, palloc'd in the current context: the caller keeps it. */
extern FdwRoutine *zaris_routine(void);

/* Whether a server belongs to this wrapper. Raises when its wrapper has no handler. */
extern bool zaris_routine_is_of_server(Oid serverid);

#endif /* ZARIS_FDW_ROUTINE_H */
