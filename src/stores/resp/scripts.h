/*
 * scripts.h
 *	  The Lua scripts of the conditional writes: check, then write, atomically on the server.
 *
 * Each touches one key, checks everything before its first write, and neither reads a clock, nor a random number, nor
 * depends on the server's locale.  They answer with an integer that is a ZarisVerdict, or, where a hash was
 * written, with its new version in 16 hex digits.  Versions are those of client/version.h.
 *
 *		PUT_STRING		KEYS[1]  ARGV: condition, expiry, value
 *		PUT_HASH		KEYS[1]  ARGV: condition, expiry, n, n × (name, value), names to remove
 *		DELETE_STRING,
 *		DELETE_HASH		KEYS[1]  ARGV: condition
 *
 *		condition	a: if absent (PUT_HASH only), p: if present, 16 hex digits: if this is its version
 *		expiry		k: keep, c: clear, digits: milliseconds since 1970
 */
#ifndef ZARIS_RESP_SCRIPTS_H
#define ZARIS_RESP_SCRIPTS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ZarisScriptId
{
	ZARIS_SCRIPT_PUT_STRING,
	ZARIS_SCRIPT_PUT_HASH,
	ZARIS_SCRIPT_DELETE_STRING,
	ZARIS_SCRIPT_DELETE_HASH,
	ZARIS_SCRIPT_COUNT
} ZarisScriptId;

typedef enum ZarisVerdict
{
	ZARIS_VERDICT_CONFLICT = 0,
	ZARIS_VERDICT_DONE = 1,
	ZARIS_VERDICT_NOT_FOUND = 2,
	ZARIS_VERDICT_WRONG_TYPE = 3,
	ZARIS_VERDICT_EMPTY = 4 /* the hash would lose its last field; nothing was written */
} ZarisVerdict;

#define ZARIS_SHA1_HEX 40

typedef struct ZarisScripts
{
	bool has_digests; /* else every call sends the text */
	char digest[ZARIS_SCRIPT_COUNT][ZARIS_SHA1_HEX + 1];
} ZarisScripts;

extern void		   zaris_scripts_prepare(ZarisScripts *scripts);
extern const char *zaris_script_text(ZarisScriptId id);

#endif /* ZARIS_RESP_SCRIPTS_H */
