/*
 * canonical.h
 *	  The one text that a value has in a key, and in a stored value where the type is one of these.
 *
 * A key belongs to a table if and only if formatting its parsed columns gives the same bytes (I12).  So each type
 * has exactly one spelling here, whatever DateStyle, TimeZone and the like a session has set:
 *
 *		text, varchar, name		the bytes, valid in the database's encoding
 *		bytea					the bytes
 *		int2, int4, int8		decimal, no leading zero, no plus, no -0
 *		boolean					t, f
 *		uuid					lower case with hyphens
 *		date					ISO: 2024-02-29, 0044-03-15 BC, infinity
 *		timestamptz				ISO in UTC: 2024-02-29 12:00:00.5+00
 *		enum					the label
 *
 * Parsing never raises for what the bytes say.
 */
#ifndef ZARIS_FDW_CANONICAL_H
#define ZARIS_FDW_CANONICAL_H

#include "table.h"

/* A base type's kind; OTHER for what has no canonical text. */
extern ZarisCodecKind zaris_canonical_kind(Oid base_type);

/* Append a value's text. The column's codec is not OTHER. */
extern void zaris_canonical_append(const ZarisColumn *column, Datum value, StringInfo text);

/*
 * Text -> value, palloc'd in the current context.  False: the text is not the type's canonical one, or the column's
 * typmod or domain refuses the value.
 */
extern bool zaris_canonical_parse(const ZarisColumn *column, const char *text, size_t len, Datum *value);

/* Look up a domain's constraints, so that a parse can check them; NULL when the type is no domain. */
extern struct ZarisDomain *zaris_canonical_domain(Oid type);

#endif /* ZARIS_FDW_CANONICAL_H */
