/*
 * error.h
 *	  Statuses become SQLSTATEs here, and nowhere else.
 *
 * Every raised error names: operation and key (escaped, cut), last status, attempts, nodes visited, elapsed time; a
 * HINT where there is one.  Remote bytes are escaped first (I14); credentials never appear.
 */
#ifndef ZARIS_BACKEND_ERROR_H
#define ZARIS_BACKEND_ERROR_H

#include "backend/compat.h"
#include "backend/session.h"

/* The SQLSTATE of a final status (DESIGN 5). last: the last attempt's status; was_reached: the store
 * has been reached in this session.  The two tell 08001 (could not connect) from 08006 (a node was lost). */
extern int zaris_status_sqlstate(ZarisStatus status, ZarisStatus last, bool was_reached);

/* Raise for an operation that is done with anything but Ok. relation: the foreign table's name, or NULL. */
pg_noreturn extern void zaris_raise_operation(ZarisSession *session, const ZarisOperation *operation, const char *relation);

/* Raise for a scan that returned FAILED. */
pg_noreturn extern void zaris_raise_scan(ZarisGuard *guard, const char *relation);

/* Raise for a map that could not be fetched. */
pg_noreturn extern void zaris_raise_map(ZarisSession *session);

/*
 * Remote bytes made printable and cut to about `most` characters, palloc'd: what is valid in the database's
 * encoding and printable stays, the rest becomes \xNN, a cut ends in "...".
 */
extern char *zaris_printable(const char *data, size_t len, int most);

#endif /* ZARIS_BACKEND_ERROR_H */
