/*
 * host.h
 *	  What the client core gets from a backend: clocks, randomness, a log, and the one event loop.
 *
 * Private to src/backend.  The callbacks may run inside a libuv callback, so they neither palloc nor raise (I2): a
 * line for the log is queued in static memory and written by zaris_host_write_log(), which is called where an
 * error may jump.
 */
#ifndef ZARIS_BACKEND_HOST_H
#define ZARIS_BACKEND_HOST_H

#include "postgres.h"

#include "client/host.h"
#include "client/loop.h"

extern const ZarisHost *zaris_host(void);

/* Made on first use, and then always the same. Raises when there are no descriptors for it. */
extern ZarisLoop *zaris_host_loop(void);

/* Only in on_proc_exit, after everything on the loop was closed. */
extern void zaris_host_destroy_loop(void);

/*
 * Tell fd.c how many sockets are open, so that it keeps the whole process below its limit by closing files of its
 * own.  They come and go inside a turn, where fd.c must not be called: hence afterwards, and as a sum.
 */
extern void zaris_host_account_sockets(int open);

/* Write what the core had to say. May raise (an interrupt). */
extern void zaris_host_write_log(void);

#endif /* ZARIS_BACKEND_HOST_H */
