/*
 * host.h
 *	  What the core and a store need from the process they live in.
 *
 * The backend fills it with PostgreSQL's means, unit tests and the simulation with their own.  None of the
 * callbacks may raise or jump: they may be called inside a libuv callback (I2).
 */
#ifndef ZARIS_CLIENT_HOST_H
#define ZARIS_CLIENT_HOST_H

#include <stdint.h>

typedef struct ZarisHost
{
	void *context; /* handed to each callback */

	/* monotonic, microseconds, never 0 */
	uint64_t (*now_us)(void *context);

	/* wall clock, milliseconds since 1970 */
	int64_t (*wall_ms)(void *context);

	/* uniform in [0, 2^64) */
	uint64_t (*random)(void *context);

	/* one line for the server's log, already escaped; the host queues it and writes it when it is safe. May be NULL. */
	void (*log)(void *context, const char *line);
} ZarisHost;

#endif /* ZARIS_CLIENT_HOST_H */
