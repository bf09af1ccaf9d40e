/*
 * row.h
 *	  A row becomes the request of an operation, or is refused.
 *
 * Everything is made in the current context, which is the writer's: bytes that point into a row's datums are
 * copied, since the executor uses its slots again while operations are still in flight.
 */
#ifndef ZARIS_FDW_ROW_H
#define ZARIS_FDW_ROW_H

#include "postgres.h"

#include "backend/compat.h"
#include "executor/tuptable.h"
#include "fdw/table.h"
#include "nodes/bitmapset.h"

/* The key of these values (by attnum - 1).  Raises 23502 for a NULL, 22023 for values that the template cannot hold. */
extern ZarisBytes zaris_row_key(const ZarisTable *table, const Datum *values, const bool *nulls);

/* One value as bytes of the current context; nil for NULL. */
extern ZarisBytes zaris_row_value(const ZarisTable *table, const ZarisColumn *column, Datum value, bool is_null);

/* All contents of a new record: value, or the fields that are not NULL. Raises 23502 when there are none. */
extern void zaris_row_new_contents(const ZarisTable *table, TupleTableSlot *slot, ZarisOperation *put);

/*
 * The fields that an UPDATE changes, nil for NULL, into *fields; their number is returned.  columns: which, as attribute
 * numbers minus FirstLowInvalidHeapAttributeNumber; NULL = all.  Whether a field is left only the store knows, since a
 * record may have fields that the table does not name.
 */
extern int zaris_row_changed_fields(const ZarisTable *table, TupleTableSlot *slot, const Bitmapset *columns,
									ZarisField **fields);

/* The value of a layout 'string' row. Raises 23502 for NULL. */
extern ZarisBytes zaris_row_string(const ZarisTable *table, TupleTableSlot *slot);

/* 23502 in PostgreSQL's words, and for a record without any field. */
pg_noreturn extern void zaris_row_raise_null(const ZarisTable *table, const ZarisColumn *column);
pg_noreturn extern void zaris_row_raise_empty(const ZarisTable *table);

/* A given expiry as milliseconds since 1970. Raises 22008 for what is infinite or past. */
extern int64 zaris_row_expiry_ms(const ZarisColumn *column, Datum value);

/* A time span from now. */
extern int64 zaris_row_expiry_after(int64 ms);

#endif /* ZARIS_FDW_ROW_H */
