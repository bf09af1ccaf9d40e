/*
 * wait.h
 *	  The one place where a backend waits for a store.
 *
 * The loop that is right (DESIGN 9, facts tried and measured):
 *
 *		for (;;)
 *		{
 *			zaris_client_turn(client);				-- never blocks
 *			CHECK_FOR_INTERRUPTS();					-- the only point that jumps; never inside a turn (I2)
 *			if (done) break;
 *			timeout = zaris_client_timeout_ms(client);		-- asked anew after every turn
 *			if (timeout == 0) continue;						-- libuv has work: waiting now could sleep for ever
 *			WaitEventSetWait(set, timeout, ...);			-- latch, postmaster death, the loop's fd
 *			if latch: ResetLatch(MyLatch);
 *		}
 *
 * Wrong: WaitEventSetWait with a timeout of your own; ResetLatch without the check; a wait without a turn just
 * before it.
 *
 * The wait event set is built once a backend.  Deadlines are made when a wait begins: the earliest of now +
 * request_timeout, STATEMENT_TIMEOUT's and (17+) TRANSACTION_TIMEOUT's finish time if active.  The client's deadline
 * for a statement timeout lies a little behind PostgreSQL's own, so that the timeout is reported by PostgreSQL.
 */
#ifndef ZARIS_BACKEND_WAIT_H
#define ZARIS_BACKEND_WAIT_H

#include "backend/session.h"

/* Wait until every submitted operation of the batch is done. Raises only for interrupts: outcomes are in the operations. */
extern void zaris_wait_batch(ZarisGuard *guard);

/* Wait until at most `pending` submitted operations are unfinished. */
extern void zaris_wait_batch_below(ZarisGuard *guard, int pending);

/* Take answers that have come without waiting; checks interrupts. */
extern void zaris_wait_poll(ZarisGuard *guard);

/* The next record of a scan: ROW, END or FAILED, never WAIT. */
extern ZarisScanStep zaris_wait_scan(ZarisGuard *guard, ZarisRecord *record);

/* Wait until the map is newer than `generation`; false when the refresh failed. */
extern bool zaris_wait_map(ZarisSession *session, uint64 generation);

/* deadline.c: absolute, on the client's clock (microseconds, monotonic) */
extern uint64 zaris_deadline(const ZarisSession *session);

#endif /* ZARIS_BACKEND_WAIT_H */
