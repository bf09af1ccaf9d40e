/*
 * host.c
 *	  What the client core gets from a backend: see host.h.
 */
#include "postgres.h"

#include <time.h>

#include "common/pg_prng.h"
#include "storage/fd.h"

#include "backend/compat.h"
#include "backend/error.h"
#include "backend/host.h"

/* Lines that wait for a safe point. More than a turn should say; what does not fit is counted. */
#define LOG_LINES 32
#define LOG_LINE  512

static ZarisLoop *loop = NULL;
static int		  accounted_sockets = 0;

static char log_lines[LOG_LINES][LOG_LINE];
static int	n_log_lines = 0;
static int	n_lost_lines = 0;

static uint64_t
now_us(void *context)
{
	return zaris_loop_now_us();
}

static int64_t
wall_ms(void *context)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * A state of our own: pg_global_prng_state is what setseed() makes repeatable, and jitter that several backends
 * share would be none.
 */
static uint64_t
random_bits(void *context)
{
	static pg_prng_state state;
	static bool			 seeded = false;

	if (!seeded)
	{
		if (!pg_prng_strong_seed(&state))
			pg_prng_seed(&state, zaris_loop_now_us() ^ ((uint64) MyProcPid << 32));
		seeded = true;
	}
	return pg_prng_uint64(&state);
}

static void
queue_line(void *context, const char *line)
{
	if (n_log_lines == LOG_LINES)
		n_lost_lines++;
	else
		strlcpy(log_lines[n_log_lines++], line, LOG_LINE);
}

const ZarisHost *
zaris_host(void)
{
	static const ZarisHost host = {
		.context = NULL,
		.now_us = now_us,
		.wall_ms = wall_ms,
		.random = random_bits,
		.log = queue_line,
	};

	return &host;
}

/*
 * The lines are taken out of the queue before they are written: writing may jump, and must not write them again
 * after that.
 */
void
zaris_host_write_log(void)
{
	while (n_log_lines > 0)
	{
		char line[LOG_LINE];

		strlcpy(line, log_lines[0], LOG_LINE);
		memmove(log_lines[0], log_lines[1], (--n_log_lines) * (size_t) LOG_LINE);
		ereport(DEBUG1, (errmsg_internal("zaris_fdw: %s", zaris_printable(line, strlen(line), LOG_LINE))));
	}
	if (n_lost_lines > 0)
	{
		int lost = n_lost_lines;

		n_lost_lines = 0;
		ereport(DEBUG1, (errmsg_internal("zaris_fdw: %d more lines were lost", lost)));
	}
}

static void
release_loop_descriptors(int n)
{
	while (n-- > 0)
		ReleaseExternalFD();
}

ZarisLoop *
zaris_host_loop(void)
{
	if (loop != NULL)
		return loop;

	for (int i = 0; i < ZARIS_LOOP_DESCRIPTORS; i++)
	{
		if (AcquireExternalFD())
			continue;
		release_loop_descriptors(i);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create an event loop: too many files are open"),
				 errhint("Raise max_files_per_process, or close connections of other extensions.")));
	}
	loop = zaris_loop_create();
	if (loop == NULL)
	{
		release_loop_descriptors(ZARIS_LOOP_DESCRIPTORS);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create an event loop"),
				 errdetail("The process is out of memory or file descriptors.")));
	}
	return loop;
}

void
zaris_host_destroy_loop(void)
{
	if (loop == NULL)
		return;
	zaris_loop_destroy(loop);
	loop = NULL;
}

void
zaris_host_account_sockets(int open)
{
	/* They are open already, so Reserve, which cannot refuse, and not Acquire. */
	for (; accounted_sockets < open; accounted_sockets++)
		ReserveExternalFD();
	for (; accounted_sockets > open; accounted_sockets--)
		ReleaseExternalFD();
}
