/*
 * record.h
 *	  What one key holds in the embedded store, as bytes.  Pure.
 *
 * All numbers are little-endian, whatever the machine is.
 *
 *		offset	 0		 1		 2				 4				 8
 *				+-------+-------+---------------+---------------+---------------+
 *				| form  | kind  | zero			| checksum		| body's length |
 *				+-------+-------+---------------+---------------+---------------+
 *			12	| version (int64)								|
 *				+-----------------------------------------------+
 *			20	| expiry: milliseconds since 1970, or -1 (int64)|
 *				+-----------------------------------------------+---------------+
 *			28	| id of the last operation: 16 bytes, zero when it had none		|
 *				+---------------------------------------------------------------+
 *			44	| body ...
 *
 *		form		1; a reader refuses what it does not know
 *		kind		1 string: the body is the value.  2 hash: see below
 *		checksum	the low half of XXH3-64 over the body, seeded with XXH3-64 over the header whose checksum is zero
 *		length		a second witness beside LMDB's own, looked at before any byte of the body is
 *
 * A hash's body, fields in strictly ascending bytewise order of their names:
 *
 *				+---------------+
 *				| fields (n)	|
 *				+---------------+---------------+---------------+---------------+
 *			n x | name's length | value's length| name			| value			|
 *				+---------------+---------------+---------------+---------------+
 *
 * LMDB keeps no checksums, so nothing that is read here is believed: every length is held against what is there
 * (I15), and a value is given out only if the checksum fits.
 */
#ifndef ZARIS_LMDB_RECORD_H
#define ZARIS_LMDB_RECORD_H

#include <stdbool.h>

#include "client/operation.h"

#define ZARIS_LMDB_HEADER		44
#define ZARIS_LMDB_OPERATION_ID 16
#define ZARIS_LMDB_MAX_RECORD	((size_t) INT32_MAX) /* header and body */

typedef struct ZarisLmdbRecord
{
	ZarisRecordKind kind;
	int64_t			version;   /* >= 1 */
	int64_t			expiry_ms; /* ZARIS_NO_EXPIRY = none */
	unsigned char	operation_id[ZARIS_LMDB_OPERATION_ID];
	ZarisBytes		body; /* points into what was read */
} ZarisLmdbRecord;

/* Room that grows and is used again, for fields and bytes that are needed for a moment. Starts zeroed. */
typedef struct ZarisLmdbScratch
{
	ZarisField *fields;
	size_t		fields_size; /* in bytes */
	char	   *bytes;
	size_t		bytes_size;
} ZarisLmdbScratch;

/* NULL = out of memory; what was in the room is lost. */
extern char		  *zaris_lmdb_scratch_bytes(ZarisLmdbScratch *scratch, size_t size);
extern ZarisField *zaris_lmdb_scratch_fields(ZarisLmdbScratch *scratch, size_t count);
extern void		   zaris_lmdb_scratch_trim(ZarisLmdbScratch *scratch); /* give back what one huge record needed */
extern void		   zaris_lmdb_scratch_free(ZarisLmdbScratch *scratch);

/* little-endian numbers anywhere */
extern uint32_t zaris_lmdb_load32(const char *at);
extern uint64_t zaris_lmdb_load64(const char *at);
extern void		zaris_lmdb_store32(char *at, uint32_t number);
extern void		zaris_lmdb_store64(char *at, uint64_t number);

/* Take a record apart; its body is not touched. False: it is none, or it is damaged. */
extern bool zaris_lmdb_record_read(ZarisBytes stored, ZarisLmdbRecord *record);

/* Whether the checksum fits. stored: as given to _read, which has said yes. */
extern bool zaris_lmdb_record_verify(ZarisBytes stored);

/* Write the header for a body; `to` has room for ZARIS_LMDB_HEADER bytes. */
extern void zaris_lmdb_record_header(const ZarisLmdbRecord *record, char *to);

extern bool zaris_lmdb_record_is_expired(const ZarisLmdbRecord *record, int64_t now_ms);

/* Bytewise: what orders keys and names. */
extern int zaris_lmdb_compare(ZarisBytes a, ZarisBytes b);

/* hashes */

typedef enum ZarisLmdbHashResult
{
	ZARIS_LMDB_HASH_OK,
	ZARIS_LMDB_HASH_EMPTY, /* of a merge: no field would be left */
	ZARIS_LMDB_HASH_DAMAGED,
	ZARIS_LMDB_HASH_TOO_LARGE,
	ZARIS_LMDB_HASH_NO_MEMORY
} ZarisLmdbHashResult;

/* All fields of a body, in order; *fields lies in the scratch, names and values point into the body. */
extern ZarisLmdbHashResult zaris_lmdb_hash_read(ZarisBytes body, ZarisLmdbScratch *scratch, ZarisField **fields,
												int *n_fields);

/* The value of a name among sorted fields; nil when it is not there. */
extern ZarisBytes zaris_lmdb_hash_find(const ZarisField *fields, int n_fields, ZarisBytes name);

/*
 * The body of an old hash (nil = there is none) with changes laid over it: a nil value removes its field, and the last
 * of several changes of one name counts.  *body lies in the scratch.
 */
extern ZarisLmdbHashResult zaris_lmdb_hash_merge(ZarisBytes old, const ZarisField *changes, int n_changes,
												 ZarisLmdbScratch *scratch, ZarisBytes *body);

#endif /* ZARIS_LMDB_RECORD_H */
