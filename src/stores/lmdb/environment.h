/*
 * environment.h
 *	  LMDB environments: one file each, opened once in a process, and what can go wrong with them.
 *
 * Why there is a registry: to close any descriptor of a file drops every fcntl lock that the process has on it, and
 * LMDB knows by such locks who lives.  So a file that is open twice in one process breaks LMDB, silently.  A child
 * that was forked with an open environment must not touch it: it opens its own.
 *
 *		acquire -> begin, ..., commit or abort -> release
 *
 * Rules for transactions (none of this is LMDB's to forgive):
 *
 *	 -	No transaction outlives the call that began it: a reader keeps every page alive that was freed since it began,
 *		so the file grows; a writer keeps all others out.
 *	 -	The writer lock is a mutex between processes whose wait no signal ends (I3), so the host keeps others away with
 *		a lock of its own (ZARIS_CAN_LOCK) and begin() finds it free.  A dead owner is noticed by LMDB.
 *	 -	The map grows when it is full (grow), and follows when others made it grow (begin does that).  Growing moves
 *		it, so no transaction may be open then.
 *	 -	An environment that failed in a way that LMDB cannot mend is closed, and opened again by the next begin.
 *
 * Not for threads: a backend has one.
 */
#ifndef ZARIS_LMDB_ENVIRONMENT_H
#define ZARIS_LMDB_ENVIRONMENT_H

#include <sys/types.h>

#include <lmdb.h>

#include "stores/lmdb/problem.h"

#define ZARIS_LMDB_FORMAT 1 /* of the databases below and of the records in them */

typedef struct ZarisLmdbEnvironment
{
	char *directory;
	char *name;
	char *path;	  /* directory/name */
	pid_t pid;	  /* that opened it */
	dev_t device; /* of the data file: who is who, however the path is spelt */
	ino_t inode;
	int	  uses;

	MDB_env *env;	   /* NULL: closed after a failure */
	MDB_dbi	 meta;	   /* "format" -> magic and number, "state" -> the last version given out (int64) */
	MDB_dbi	 records;  /* 'k' key -> record (record.h) */
	MDB_dbi	 expiries; /* expiry, version -> key, for each record with an expiry (write.c) */
	MDB_txn *reader;   /* kept between reads, holding nothing but its slot; NULL = none yet */
	size_t	 max_key;  /* bytes in a key of the records database */

	struct ZarisLmdbEnvironment *next;
} ZarisLmdbEnvironment;

/* Sizes that tests make small. */
typedef struct ZarisLmdbTuning
{
	size_t	 map_size;	  /* of a map when it is opened; address space only, not memory */
	size_t	 map_step;	  /* a map doubles until it grows by so much at a time */
	unsigned readers;	  /* slots in the table of readers, where this process is the first to open the file */
	size_t	 group_bytes; /* writes of one transaction, about */
	size_t	 page_bytes;  /* contents of one page of a scan, about */
} ZarisLmdbTuning;

extern ZarisLmdbTuning zaris_lmdb_tuning;

/*
 * The environment directory/name, made if it is not there.  Never waits for other processes: Unavailable may be tried
 * again in some milliseconds.  NULL with a problem when it cannot be had; then no file that was there has been
 * changed.
 */
extern ZarisLmdbEnvironment *zaris_lmdb_acquire(const char *directory, const char *name, ZarisLmdbProblem *problem);
extern void					 zaris_lmdb_release(ZarisLmdbEnvironment *environment);

/* Whether the store at this path is open in this process. */
extern bool zaris_lmdb_is_open_here(const char *path);

/* Begin a transaction. Writing, this waits for other writers. */
extern bool zaris_lmdb_begin(ZarisLmdbEnvironment *environment, bool write, MDB_txn **txn, ZarisLmdbProblem *problem);

/* End one that reads, or take back one that writes. */
extern void zaris_lmdb_abort(ZarisLmdbEnvironment *environment, bool write, MDB_txn *txn);

/*
 * Commit one that writes; it is gone in any case.  0, or LMDB's code: then nothing was applied, unless *in_doubt says
 * that this is not known.
 */
extern int zaris_lmdb_commit(ZarisLmdbEnvironment *environment, MDB_txn *txn, bool *in_doubt);

/* Make room for `bytes` more. No transaction may be open. 0, or a code. */
extern int zaris_lmdb_grow(ZarisLmdbEnvironment *environment, size_t bytes);

/*
 * Run work() so that a failed assertion inside LMDB (a damaged file) does not end the process: that comes back as
 * MDB_CORRUPTED with *asserted set.  Then the transaction must be aborted and the environment broken off.
 */
extern int zaris_lmdb_guarded(int (*work)(void *argument), void *argument, bool *asserted);

/* Close it; the next begin opens it again. No transaction may be open. */
extern void zaris_lmdb_break_off(ZarisLmdbEnvironment *environment);

/* Remove a store from the disk (see lmdb.h). */
extern bool zaris_lmdb_remove_store(const char *directory, const char *name, ZarisLmdbProblem *problem);

#endif /* ZARIS_LMDB_ENVIRONMENT_H */
