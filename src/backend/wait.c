/*
 * wait.c
 *	  The one place where a backend waits for a store: see wait.h for the loop and for what is wrong.
 */
#include "postgres.h"

#include <limits.h>

#include "backend/compat.h"
#include "backend/host.h"
#include "backend/wait.h"
#include "backend/writerlock.h"

/* True = the wait is over. May not raise. */
typedef bool (*Condition)(void *context);

static WaitEventSet *
wait_set(void)
{
	static WaitEventSet *set = NULL;
	WaitEventSet		*made;
	int					 fd;

	if (set != NULL)
		return set;

	/* Latch, postmaster, loop: none of them changes for the life of a backend. Kept only when complete. */
	fd = zaris_loop_fd(zaris_host_loop());
	made = CreateWaitEventSet(NULL, 3);
	AddWaitEventToSet(made, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(made, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(made, WL_SOCKET_READABLE, fd, NULL, NULL);
	set = made;
	return set;
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("ZarisStore");
	return event;
}

/* Sleep until the loop, a latch or the timeout (ms, -1 = none) has something for us. Raises for nothing. */
static void
sleep_until_event(int timeout)
{
	WaitEvent event;

	if (WaitEventSetWait(wait_set(), timeout, &event, 1, wait_event()) == 1 && (event.events & WL_LATCH_SET) != 0)
		ResetLatch(MyLatch);
}

/* Milliseconds until the client's next turn is due, or the deadline if that comes first; rounded up. */
static int
sleep_ms(ZarisClient *client, uint64 deadline)
{
	int	   timeout = zaris_client_timeout_ms(client);
	uint64 now,
		left;

	if (timeout == 0 || deadline == ZARIS_NO_DEADLINE)
		return timeout;
	now = zaris_loop_now_us();
	left = deadline > now ? (deadline - now + 999) / 1000 : 0;
	return timeout < 0 || left < (uint64) timeout ? (int) Min(left, (uint64) INT_MAX) : timeout;
}

/* One turn, and whatever it brought to be said or obeyed. */
static void
turn(const ZarisSession *session)
{
	ZarisWriterLock lock;

	zaris_writer_lock(session, &lock);
	zaris_client_turn(session->client);
	zaris_writer_unlock(&lock);
	zaris_host_write_log();
	CHECK_FOR_INTERRUPTS();
}

/*
 * Turn until the condition holds.  A turn comes first and last: answers that are there already need no sleep, and
 * libuv tells epoll of new work only in a turn.  deadline: for what has none of its own in the client.
 */
static void
wait_for(const ZarisSession *session, Condition condition, void *context, uint64 deadline)
{
	ZarisClient *client = session->client;

	for (;;)
	{
		int timeout;

		turn(session);
		if (condition(context))
			break;
		timeout = sleep_ms(client, deadline);
		if (timeout != 0)
			sleep_until_event(timeout);
	}
	zaris_session_account();
}

typedef struct BatchWait
{
	const ZarisBatch *batch;
	int				  pending;
} BatchWait;

static bool
batch_is_below(void *context)
{
	const BatchWait *wait = context;

	return zaris_batch_pending(wait->batch) <= wait->pending;
}

void
zaris_wait_batch_below(ZarisGuard *guard, int pending)
{
	BatchWait wait = {guard->batch, pending};

	/* Nothing to wait for is nothing to turn for: what was submitted goes out in one piece later. */
	if (batch_is_below(&wait))
	{
		CHECK_FOR_INTERRUPTS();
		return;
	}

	/* The deadline holds while somebody waits. An error ends the batch, so it need not be put back then. */
	zaris_batch_set_deadline(guard->batch, zaris_deadline(guard->session));
	wait_for(guard->session, batch_is_below, &wait, ZARIS_NO_DEADLINE);
	zaris_batch_set_deadline(guard->batch, ZARIS_NO_DEADLINE);
}

void
zaris_wait_batch(ZarisGuard *guard)
{
	zaris_wait_batch_below(guard, 0);
}

void
zaris_wait_poll(ZarisGuard *guard)
{
	turn(guard->session);
}

typedef struct ScanWait
{
	ZarisScan	 *scan;
	ZarisRecord	 *record;
	ZarisScanStep step;
} ScanWait;

static bool
scan_has_step(void *context)
{
	ScanWait *wait = context;

	wait->step = zaris_scan_next(wait->scan, wait->record);
	return wait->step != ZARIS_SCAN_WAIT;
}

ZarisScanStep
zaris_wait_scan(ZarisGuard *guard, ZarisRecord *record)
{
	ScanWait wait = {guard->scan, record, ZARIS_SCAN_WAIT};

	/* Most rows are here already: then no clock is read and nothing is turned. */
	if (scan_has_step(&wait))
		return wait.step;

	zaris_scan_set_deadline(guard->scan, zaris_deadline(guard->session));
	wait_for(guard->session, scan_has_step, &wait, ZARIS_NO_DEADLINE);
	zaris_scan_set_deadline(guard->scan, ZARIS_NO_DEADLINE);
	return wait.step;
}

typedef struct MapWait
{
	ZarisClient *client;
	uint64		 generation;
	uint64		 deadline;
} MapWait;

static bool
map_is_newer(const MapWait *wait)
{
	return zaris_client_map(wait->client)->generation > wait->generation;
}

static bool
map_wait_is_over(void *context)
{
	const MapWait *wait = context;

	return map_is_newer(wait) || !zaris_client_map_pending(wait->client) || zaris_loop_now_us() >= wait->deadline;
}

bool
zaris_wait_map(ZarisSession *session, uint64 generation)
{
	MapWait wait = {session->client, generation, zaris_deadline(session)};

	if (zaris_client_want_map(session->client, generation))
		return true;
	wait_for(session, map_wait_is_over, &wait, wait.deadline);
	return map_is_newer(&wait);
}
