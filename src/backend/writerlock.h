/*
 * writerlock.h
 *	  The line in which writers of an embedded store stand.
 *
 * The store's own lock waits in the kernel and hears no interrupt, so nobody waits there: whoever is about to write takes
 * a PostgreSQL lock of that store's name first, which statement_timeout, lock_timeout, cancel and the deadlock detector
 * know (I3).  It is held for one turn of the client only, so that writers alternate.
 *
 *		ZarisWriterLock lock;
 *		zaris_writer_lock(session, &lock);		may raise; takes nothing where nothing is to be written
 *		zaris_client_turn(session->client);
 *		zaris_writer_unlock(&lock);
 *
 * An error in between gives the lock back with the transaction's other locks.
 */
#ifndef ZARIS_BACKEND_WRITERLOCK_H
#define ZARIS_BACKEND_WRITERLOCK_H

#include "postgres.h"

#include "storage/lock.h"

#include "backend/session.h"

typedef struct ZarisWriterLock
{
	LOCKTAG tag;
	bool	held;
} ZarisWriterLock;

extern void zaris_writer_lock(const ZarisSession *session, ZarisWriterLock *lock);
extern void zaris_writer_unlock(ZarisWriterLock *lock);

/* Where the embedded stores of this database lie: an absolute path, palloc'd. */
extern char *zaris_store_directory(void);

#endif /* ZARIS_BACKEND_WRITERLOCK_H */
