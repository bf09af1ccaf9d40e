/*
 * lmdb.h
 *	  The embedded store: zaris://inproc/NAME, an LMDB file in the server's own data directory.
 *
 * One file per NAME and database, shared by all backends.  Ordered, snapshot reads, atomic writes, expiry, counter
 * versions.  A write that was answered is on the disk.
 *
 * Operations wait in a queue until flush(), which runs them in order, a group at a time: reads that stand together
 * share a read transaction; a group with a write in it is one write transaction, so that many writes cost one fsync. 
 * Preconditions are each operation's own: the Conflict of one undoes no other.  What does not fit into one group or
 * one turn is run by the next turns of the loop, so that an interrupt is seen in between (I3).
 *
 * Limits: keys 510 bytes, records 2 GB.
 *
 * The files, from the disk upwards:
 *
 *		files.c			directories: made, locked, removed		datafile.c	is a file whole? asked before LMDB maps it
 *		open.c			a store's files, made and opened		remove.c	and removed
 *		environment.c	one a file and process: transactions, growth, what to do when LMDB fails
 *		record.c		the format of a record, with a drawing in record.h
 *		request.c		one operation: keys and look-ups; contents.c, read.c, page.c, write.c
 *		lmdb.c			the driver: queue, groups, answers		problem.c	codes become statuses and sentences
 */
#ifndef ZARIS_LMDB_LMDB_H
#define ZARIS_LMDB_LMDB_H

#include "client/store.h"

extern const ZarisStoreDriver zaris_lmdb_driver;

/*
 * Remove the store directory/name from the disk.  Its sessions in this process must have been closed before.  NotFound:
 * there is none; Unavailable: this or another process has it open, or opens one at this moment.  *problem is a
 * sentence in static memory, valid until the next call.  A damaged or foreign store can be removed too, but nothing is
 * removed that is not called as a store's files are.
 */
extern ZarisStatus zaris_lmdb_drop(const char *directory, const char *name, const char **problem);

#endif /* ZARIS_LMDB_LMDB_H */
