/*
 * writer.h
 *	  Sends a table's writes in pipelines, waits for them, and judges the answers.
 *
 * A writer belongs to one table in one statement.  Its use, for each row:
 *
 *		zaris_writer_row(writer);				-- makes room; may wait, judge and raise for earlier rows
 *		(in writer->context:) format the key, encode the contents
 *		operation = zaris_writer_operation(writer, kind, key, creates);
 *		... fill in the rest of the request ...
 *		zaris_writer_send(writer, operation, tolerated, &result);
 *		zaris_writer_drain(writer);				-- only when the result is wanted now
 *
 * and zaris_writer_close() in the end, which waits for what is left.  All of these raise: for interrupts, and for an
 * answer that is not Ok nor tolerated.  Answers are judged in the order of the rows.
 *
 * Who owns which bytes: what an operation points to lies in writer->context, which is emptied only when nothing is in
 * flight, and only by zaris_writer_row() and zaris_writer_close().  When a statement fails, its memory goes
 * and the guard abandons what is in flight (I10).
 *
 * At most table->batch_size operations are in flight, and fewer when they are large.
 */
#ifndef ZARIS_FDW_WRITER_H
#define ZARIS_FDW_WRITER_H

#include "postgres.h"

#include "backend/compat.h"
#include "backend/session.h"
#include "fdw/table.h"
#include "fdw/written.h"

#define ZARIS_TOLERATE(status) (1u << (status))

/* What came of one write. Filled in when it is judged. */
typedef struct ZarisWriteResult
{
	bool  applied;	   /* false: a tolerated answer */
	bool  has_version; /* of a Put: the store told the record's new version */
	int64 version;
} ZarisWriteResult;

struct ZarisMove; /* move.h */

typedef struct ZarisWriter
{
	ZarisTable	 *table;
	Relation	  relation;
	ZarisSession *session;
	ZarisGuard	 *guard;
	ZarisWritten *written;
	MemoryContext context;

	ZarisOperation	**operations; /* since the context was emptied, in the order of the rows */
	int				  n_operations;
	int				  n_judged; /* of them */
	size_t			  bytes;	/* of keys and contents */
	struct ZarisMove *moves;	/* in writer->context; not begun yet */
	int				  n_moves;

	/* for EXPLAIN */
	uint64 writes;
	uint64 applied;
	uint64 attempts;
	uint64 waits;
} ZarisWriter;

/* In the current context. userid: whose mapping; InvalidOid = the current user. estate: NULL outside the executor. */
extern ZarisWriter *zaris_writer_open(EState *estate, Relation relation, Oid userid);

extern void zaris_writer_row(ZarisWriter *writer);

/* A new operation, in the book of written keys. creates: the key is none that the statement may read. */
extern ZarisOperation *zaris_writer_operation(ZarisWriter *writer, ZarisOperationKind kind, ZarisBytes key, bool creates);

/* Whether the statement has written the key already: then PostgreSQL's rules skip the row. */
extern bool zaris_writer_has_written(ZarisWriter *writer, ZarisBytes key);

/* tolerated: ZARIS_TOLERATE bits of answers that mean "no row". result: NULL, or stays valid until it is judged. */
extern void zaris_writer_send(ZarisWriter *writer, ZarisOperation *operation, unsigned tolerated,
							  ZarisWriteResult *result);
extern void zaris_writer_drain(ZarisWriter *writer);
extern void zaris_writer_close(ZarisWriter *writer);

/* For move.c: wait for the batch, count what it cost; an operation that is not in the book. */
extern void			   zaris_writer_wait(ZarisWriter *writer);
extern ZarisOperation *zaris_writer_bare_operation(ZarisWriter *writer, ZarisOperationKind kind, ZarisBytes key);
extern void			   zaris_writer_count(ZarisWriter *writer, const ZarisOperation *operation);

/* 23505 in PostgreSQL's own words. */
pg_noreturn extern void zaris_writer_raise_duplicate(ZarisWriter *writer, ZarisBytes key);

#endif /* ZARIS_FDW_WRITER_H */
