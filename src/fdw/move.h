/*
 * move.h
 *	  An UPDATE that changes key columns: the record moves to another key.
 *
 * No store does this in one step over two slots, so it goes in stages, many records at a time:
 *
 *	 1. read		the whole record: fields that the table does not name and the expiry move along.  A version other than
 *					the one that the scan read ends the statement with 40001, nothing written.
 *	 2. create		Put IfAbsent under the new key.  A key that is taken ends it with 23505, what was created is undone.
 *	 3. remove		Delete IfMatchVersion of the old key.  Conflict: the new record is undone, then 40001.
 *
 * To undo is to Delete IfMatchVersion what was created, so that it never takes away what somebody else has written there
 * since.  What cannot be undone is named in a WARNING.  When it is unknown whether the old key was removed (08007), the
 * new record stays: rather twice than not at all.
 */
#ifndef ZARIS_FDW_MOVE_H
#define ZARIS_FDW_MOVE_H

#include "fdw/writer.h"

typedef struct ZarisMove
{
	ZarisBytes		  old_key;
	ZarisBytes		  new_key;
	int64			  version;	 /* that the scan read */
	bool			  has_value; /* string: .value replaces what is there */
	ZarisBytes		  value;
	ZarisField		 *fields; /* hash: those that change; nil = removed */
	int				  n_fields;
	ZarisExpiryAction expiry; /* KEEP: the record's expiry moves along */
	int64			  expires_at_ms;
	ZarisWriteResult *result; /* or NULL */

	/* move.c's */
	ZarisFingerprint old_fingerprint;
	ZarisFingerprint new_fingerprint;
	ZarisOperation	*get;
	ZarisOperation	*put;
	ZarisOperation *delete;
} ZarisMove;

/* All bytes lie in writer->context. The move is begun by zaris_writer_drain(), or with others when there are enough. */
extern void zaris_move_add(ZarisWriter *writer, const ZarisMove *move);

/* for writer.c */
extern bool zaris_move_is_full(const ZarisWriter *writer);
extern void zaris_move_all(ZarisWriter *writer);

#endif /* ZARIS_FDW_MOVE_H */
