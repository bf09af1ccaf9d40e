/*
 * codec.h
 *	  Datum <-> bytes, for values and fields; keys have stricter rules (table.h).
 *
 * Text form as a client sees it, with DateStyle ISO, IntervalStyle postgres and enough float digits, whatever the session
 * has set; bytea is raw.  Text is checked for the database's encoding and for NUL on the way in: 22021 that names
 * key and column.  A text that the column's type refuses keeps the type's own SQLSTATE, and the error's context
 * names key, column and table.
 */
#ifndef ZARIS_FDW_CODEC_H
#define ZARIS_FDW_CODEC_H

#include "table.h"

#define ZARIS_MAX_VALUE ((size_t) 512 * 1024 * 1024) /* a bulk string's limit; larger: 54000 */

/* Stored bytes -> Datum of the column, palloc'd in the current context. Raises. */
extern Datum zaris_codec_decode(const ZarisTable *table, const ZarisColumn *column, ZarisBytes bytes, ZarisBytes key);

/* Datum -> bytes to store, palloc'd in the current context (or pointing into the datum). Raises (54000). */
extern ZarisBytes zaris_codec_encode(const ZarisTable *table, const ZarisColumn *column, Datum value);

/* timestamptz <-> milliseconds since 1970 (expires_at). Encoding raises for what is out of range or infinite. */
extern Datum zaris_codec_expiry(int64 ms);
extern int64 zaris_codec_expiry_ms(Datum value);

#endif /* ZARIS_FDW_CODEC_H */
