/*
 * version.h
 *	  Content versions: what IfMatchVersion compares on a store that keeps no counters.
 *
 * string:	the first 8 bytes of SHA-1(value), as a signed big-endian integer.
 * hash:	for each field, the first 8 bytes of SHA-1(decimal length of the name ":" name value), as two unsigned
 *			big-endian 32-bit halves; the halves are summed over the fields, each modulo 2^32, and joined again.
 *			A sum needs no order, so that the script on the server and the client agree without sorting (a Lua
 *			sort follows the server's locale).
 *
 * The scripts of src/stores/resp/scripts.c compute the same; t/ compares the two.
 */
#ifndef ZARIS_CLIENT_VERSION_H
#define ZARIS_CLIENT_VERSION_H

#include <stdint.h>

#include "operation.h"

/* False only when the digest is not to be had (libcrypto without SHA-1, or out of memory). */
extern bool zaris_version_string(const char *value, size_t len, int64_t *version);
extern bool zaris_version_hash(const ZarisField *fields, int n_fields, int64_t *version); /* nil values are not there and do not count */

#endif /* ZARIS_CLIENT_VERSION_H */
