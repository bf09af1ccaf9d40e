/*
 * retry.c
 *	  The retry decision (retry.h): rules 1 to 6, a function each where they need one.
 */
#include "client/retry.h"

#include "client/check.h"

/*
 * Whether this attempt leaves behind a write that may or may not have happened.  An answer that asks to try again
 * although the command ran is a contradiction; believing that it did not run would be a guess (I8).
 */
static bool
attempt_taints(const ZarisRetryInput *input)
{
	if (!input->is_write)
		return false;
	if (input->outcome == ZARIS_OUTCOME_IN_DOUBT)
		return true;
	return input->outcome == ZARIS_OUTCOME_APPLIED && zaris_status_class(input->status) == ZARIS_CLASS_TRANSIENT;
}

/* End the operation. A tainted write may only say that it worked, or that nobody knows (I8). */
static ZarisRetryDecision
finish(ZarisRetryDecision decision, ZarisStatus status)
{
	decision.action = ZARIS_RETRY_FINISH;
	decision.await_refresh = false;
	decision.status = status;
	if (decision.tainted && status != ZARIS_OK)
		decision.status = ZARIS_OUTCOME_UNKNOWN;
	return decision;
}

/*
 * Go on after a delay, unless it would reach the deadline: then the time left would be slept away for nothing, and
 * the last word were the clock's instead of the store's (I4).
 */
static ZarisRetryDecision
go_on(ZarisRetryDecision decision, ZarisRetryAction action, const ZarisRetryInput *input, uint64_t delay_us)
{
	if (input->deadline_us != ZARIS_NO_DEADLINE &&
		(input->now_us >= input->deadline_us || delay_us >= input->deadline_us - input->now_us))
		return finish(decision, ZARIS_DEADLINE_EXCEEDED);

	decision.action = action;
	decision.status = input->status;
	decision.at_us = input->now_us + delay_us;
	return decision;
}

/* backoff * attempts, * 8 while slots migrate, +-20 % so that backends do not march in step, at most 2 s */
static uint64_t
backoff_delay(const ZarisRetryPolicy *policy, const ZarisRetryInput *input)
{
	double jitter = input->jitter;
	double delay = (double) policy->backoff_us * input->attempts;

	if (input->status == ZARIS_MIGRATING)
		delay *= ZARIS_MIGRATING_FACTOR;

	if (!(jitter >= -1.0)) /* catches NaN too */
		jitter = -1.0;
	if (jitter > 1.0)
		jitter = 1.0;
	delay *= 1.0 + 0.2 * jitter;

	if (delay >= (double) ZARIS_BACKOFF_CAP_US)
		return ZARIS_BACKOFF_CAP_US;
	return (uint64_t) delay;
}

/* 2, 4, 8 ... ms: two nodes that point at each other are in the middle of a hand-over. */
static uint64_t
revisit_pause(int revisits)
{
	uint64_t pause = ZARIS_REVISIT_PAUSE_US;

	for (int i = 0; i < revisits && pause < ZARIS_BACKOFF_CAP_US; i++)
		pause *= 2;
	return pause < ZARIS_BACKOFF_CAP_US ? pause : ZARIS_BACKOFF_CAP_US;
}

/*
 * What the answer says about the map holds whatever becomes of the operation: the next one profits even when this
 * one's budget is spent.
 */
static void
learn_for_map(ZarisRetryDecision *decision, const ZarisRetryInput *input)
{
	ZarisStatusRefresh refresh = zaris_status_refresh(input->status);

	decision->patch_slot = input->redirect == ZARIS_REDIRECT_MOVED;
	decision->refresh = refresh != ZARIS_REFRESH_NONE;
	decision->suspect = refresh == ZARIS_REFRESH_SUSPECT;
}

ZarisRetryDecision
zaris_retry_decide(const ZarisRetryPolicy *policy, const ZarisRetryInput *input)
{
	ZarisRetryDecision decision = {0};
	ZarisStatusClass class = zaris_status_class(input->status);
	ZarisStatus status = (unsigned) input->status < ZARIS_STATUS_COUNT ? input->status : ZARIS_PROTOCOL_ERROR;
	bool		once = policy->disabled || policy->max_attempts <= 1;

	decision.at_us = input->now_us;
	decision.tainted = input->tainted || attempt_taints(input); /* rule 3, which the first two need */

	/*
	 * Rules 1 and 2.  Every write carries a precondition (DESIGN 13), so a tainted one that hears Conflict or
	 * NotFound may be looking at its own earlier attempt: finish() makes OutcomeUnknown of it.
	 */
	if (class != ZARIS_CLASS_TRANSIENT)
		return finish(decision, status);

	learn_for_map(&decision, input);

	/* rule 4; kinds that address a node have nowhere else to go */
	if (policy->disabled || input->at_node)
		return finish(decision, status);

	/* rule 5: a hop costs no attempt, but it is a second sending, which max_attempts = 1 excludes */
	if (input->redirect != ZARIS_REDIRECT_NONE && input->hops < ZARIS_MAX_HOPS && !once)
	{
		decision.await_refresh = input->target_visited;
		return go_on(decision, ZARIS_RETRY_FOLLOW, input,
					 input->target_visited ? revisit_pause(input->revisits) : 0);
	}

	/* rule 6 */
	if (input->attempts >= policy->max_attempts)
		return finish(decision, status);
	decision.await_refresh = decision.refresh;
	return go_on(decision, ZARIS_RETRY_AGAIN, input, backoff_delay(policy, input));
}
