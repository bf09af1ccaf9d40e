/*
 * deadline.c
 *	  How long a wait may last: made once when it begins, absolute, never extended (I4).
 *
 * request_timeout is counted from the wait's begin: a cursor that its reader leaves alone for an hour does not time out.
 * PostgreSQL's own timeouts have a finish time of their own, on the wall clock, which is carried over to the
 * client's clock.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "backend/compat.h"
#include "backend/deadline.h"
#include "backend/settings.h"
#include "backend/wait.h"

/*
 * PostgreSQL should be the one to report its own timeout: it fires first, and the deadline behind it only keeps the
 * core from starting what cannot be finished.
 */
#define BEHIND_POSTGRES_US INT64_C(50000)

typedef struct PostgresTimeout
{
	TimeoutId	id;
	int			sqlstate;
	const char *setting;
	const char *words;
} PostgresTimeout;

static const PostgresTimeout postgres_timeouts[] = {ZARIS_TIMEOUTS};

#define REQUEST_TIMEOUT \
	{ \
		ERRCODE_CONNECTION_FAILURE, "request_timeout", "request_timeout" \
	}

static ZarisDeadlineBound bound = REQUEST_TIMEOUT;

const ZarisDeadlineBound *
zaris_deadline_bound(void)
{
	return &bound;
}

/* On the client's clock. */
static uint64
finish_us(TimeoutId id, uint64 now)
{
	int64 left = get_timeout_finish_time(id) - GetCurrentTimestamp() + BEHIND_POSTGRES_US;

	return left > 0 ? now + left : now;
}

uint64
zaris_deadline(const ZarisSession *session)
{
	int	   timeout_ms = session->request_timeout_ms >= 0 ? session->request_timeout_ms : zaris_setting_request_timeout;
	uint64 now = zaris_loop_now_us();
	uint64 deadline = timeout_ms > 0 ? now + timeout_ms * UINT64_C(1000) : ZARIS_NO_DEADLINE;

	bound = (ZarisDeadlineBound) REQUEST_TIMEOUT;
	for (int i = 0; i < lengthof(postgres_timeouts); i++)
	{
		const PostgresTimeout *timeout = &postgres_timeouts[i];
		uint64				   finish;

		/* A finish time stays behind when its timeout is over: only an active one counts. */
		if (!get_timeout_active(timeout->id))
			continue;
		finish = finish_us(timeout->id, now);
		if (finish >= deadline)
			continue;
		deadline = finish;
		bound = (ZarisDeadlineBound){timeout->sqlstate, timeout->setting, timeout->words};
	}
	return deadline;
}
