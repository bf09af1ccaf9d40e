/*
 * files.h
 *	  Directories of embedded stores: made, locked, made durable, removed.
 *
 *		DIRECTORY/				one database's stores; locked (flock) while one is made, opened or removed
 *			NAME/				one store, complete from the moment that it has this name
 *				data.mdb		LMDB's file
 *				lock.mdb		LMDB's table of readers and its writer lock; worthless when nobody has it open
 *			.NAME.new/			a store in the making
 *			.NAME.old/			a store on its way out
 *
 * Names with a dot are left over only by a crash, and are swept away by the next who needs the name.
 */
#ifndef ZARIS_LMDB_FILES_H
#define ZARIS_LMDB_FILES_H

#include "stores/lmdb/problem.h"

#define ZARIS_LMDB_DATA "data.mdb"
#define ZARIS_LMDB_LOCK "lock.mdb"

/* Whether a store may have this name: [A-Za-z0-9_-]{1,63}. url.c has looked already; it is part of a path here. */
extern bool zaris_lmdb_name_is_good(const char *name);

/* directory/prefix name suffix, and directory/name/file; malloc'd, NULL = out of memory. */
extern char *zaris_lmdb_path(const char *directory, const char *prefix, const char *name, const char *suffix);

/*
 * Lock a directory against everybody else who makes, opens, closes or removes a store in it.  Never waits: when it is
 * locked, that is Unavailable and may be tried again in some milliseconds.  Returns a descriptor, which
 * zaris_lmdb_unlock() closes, or -1.  With make, a missing directory and its parents are made (0700); else that is
 * NotFound.
 */
extern int	zaris_lmdb_lock(const char *directory, bool make, ZarisLmdbProblem *problem);
extern void zaris_lmdb_unlock(int fd);

/* Make the entries of a directory durable. 0, or an errno. */
extern int zaris_lmdb_sync_directory(const char *path);

/* Whether nothing lies in a store's directory but its files. 0, ENOTEMPTY, or another errno. */
extern int zaris_lmdb_holds_nothing_else(const char *path);

/*
 * Remove a store's two files and its directory, as far as they are there. 0, or an errno (ENOTEMPTY: something else
 * lies there).
 */
extern int zaris_lmdb_remove(const char *path);

#endif /* ZARIS_LMDB_FILES_H */
