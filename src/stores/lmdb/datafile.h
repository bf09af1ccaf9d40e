/*
 * datafile.h
 *	  Is a data file whole?  Found out by reading it, before LMDB maps it.
 *
 * LMDB believes what a file says of itself.  A page that it names and that lies behind the file's end is a SIGBUS
 * when it is touched, which takes a whole PostgreSQL server through a restart, and again at the next try.  So a file
 * that was cut (a full disk while it was copied, a bad restore) must be recognized first.
 */
#ifndef ZARIS_LMDB_DATAFILE_H
#define ZARIS_LMDB_DATAFILE_H

#include "stores/lmdb/problem.h"

/*
 * Check an open data file of the store `name`: LMDB's header, and that the file holds every page in use.  Nothing is
 * changed.  Others may write to it at the same time.
 */
extern bool zaris_lmdb_datafile_check(int fd, const char *name, ZarisLmdbProblem *problem);

#endif /* ZARIS_LMDB_DATAFILE_H */
