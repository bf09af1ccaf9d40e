/*
 * open.h
 *	  The files of one store: made and opened. For environment.c; the directory is locked by the caller.
 */
#ifndef ZARIS_LMDB_OPEN_H
#define ZARIS_LMDB_OPEN_H

#include "stores/lmdb/environment.h"

/*
 * Open the files that are there, and fill in what an open environment has.  The data file is checked by reading before
 * LMDB maps it, and its format before anything is written.
 */
extern bool zaris_lmdb_open_files(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem);

/*
 * Make the files.  A store gets its name only when it is complete and on the disk: one without a whole data file is
 * therefore never half made but damaged, and is not taken for an empty one.
 */
extern bool zaris_lmdb_make_store(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem);

/* A size that a map can have. */
extern size_t zaris_lmdb_round_map(size_t size);

/* What LMDB calls when it does not believe its eyes (zaris_lmdb_guarded). */
extern void zaris_lmdb_assertion_failed(MDB_env *env, const char *message);

#endif /* ZARIS_LMDB_OPEN_H */
