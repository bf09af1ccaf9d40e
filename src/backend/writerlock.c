/*
 * writerlock.c
 *	  The line in which writers of an embedded store stand: see writerlock.h.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "backend/writerlock.h"

/* Advisory locks of users have 1 or 2 here; ours must not meet them. */
#define LOCK_CLASS 23

void
zaris_writer_lock(const ZarisSession *session, ZarisWriterLock *lock)
{
	uint64 name;

	lock->held = false;
	if (!zaris_client_wants_lock(session->client))
		return;

	/* Two names with one hash only wait for each other more often than they had to. */
	name = hash_bytes_extended((const unsigned char *) session->store_name, strlen(session->store_name), 0);
	SET_LOCKTAG_ADVISORY(lock->tag, MyDatabaseId, (uint32) (name >> 32), (uint32) name, LOCK_CLASS);
	(void) LockAcquire(&lock->tag, ExclusiveLock, false, false);
	lock->held = true;
}

void
zaris_writer_unlock(ZarisWriterLock *lock)
{
	if (lock->held)
		LockRelease(&lock->tag, ExclusiveLock, false);
	lock->held = false;
}

char *
zaris_store_directory(void)
{
	return psprintf("%s/zaris/%u", DataDir, MyDatabaseId);
}
