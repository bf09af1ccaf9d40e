/*
 * test_retry.c
 *	  The retry decision: a readable table of cases, then the whole product of inputs against the rules of retry.h and
 *	  DESIGN 6, each rule written down once more as an invariant.
 */
#include "client/retry.h"

#include <math.h>

#include "test.h"

#define MS	UINT64_C(1000)
#define NOW UINT64_C(1000000000)

static const ZarisRetryPolicy usual = {3, 100 * MS, false};
static const ZarisRetryPolicy once = {1, 100 * MS, false};
static const ZarisRetryPolicy many = {50, 100 * MS, false};
static const ZarisRetryPolicy disabled = {3, 100 * MS, true};

/* A read whose first attempt just ended. */
static ZarisRetryInput
read_input(ZarisStatus status)
{
	ZarisRetryInput input = {0};

	input.status = status;
	input.outcome = ZARIS_OUTCOME_REJECTED;
	input.redirect = ZARIS_REDIRECT_NONE;
	input.kind = ZARIS_OP_GET;
	input.attempts = 1;
	input.now_us = NOW;
	input.deadline_us = ZARIS_NO_DEADLINE;
	return input;
}

/* cases with names */

typedef struct Case
{
	const char			   *name;
	const ZarisRetryPolicy *policy;
	ZarisStatus				status;
	ZarisOutcome			outcome;
	ZarisRedirectKind		redirect;
	bool					visited;
	bool					write;
	int						attempts;
	int						hops;
	int						revisits;
	bool					tainted;
	uint64_t				left_ms; /* until the deadline; 0 = none */

	/* expected */
	ZarisRetryAction action;
	ZarisStatus		 final;	   /* for FINISH */
	uint64_t		 delay_ms; /* else */
	const char		*flags;	   /* p = patch, r = refresh, s = suspect, a = await, t = tainted */
} Case;

#define NO		 ZARIS_REDIRECT_NONE
#define MOVED	 ZARIS_REDIRECT_MOVED
#define ASK		 ZARIS_REDIRECT_ASK
#define NOT_SENT ZARIS_OUTCOME_NOT_SENT
#define REJECTED ZARIS_OUTCOME_REJECTED
#define APPLIED	 ZARIS_OUTCOME_APPLIED
#define IN_DOUBT ZARIS_OUTCOME_IN_DOUBT
#define FINISH	 ZARIS_RETRY_FINISH
#define FOLLOW	 ZARIS_RETRY_FOLLOW
#define AGAIN	 ZARIS_RETRY_AGAIN

/* clang-format off */
static const Case cases[] = {
	/* name, policy, status, outcome, redirect, visited, write, attempts, hops, revisits, tainted, left: action, final, delay, flags */

	/* rule 1: answers */
	{"ok", &usual, ZARIS_OK, APPLIED, NO, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_OK, 0, ""},
	{"not found", &usual, ZARIS_NOT_FOUND, APPLIED, NO, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_NOT_FOUND, 0, ""},
	{"conflict is never retried (I7)", &usual, ZARIS_CONFLICT, APPLIED, NO, 0, 1, 1, 0, 0, 0, 0, FINISH, ZARIS_CONFLICT, 0, ""},
	{"tainted write, then ok", &usual, ZARIS_OK, APPLIED, NO, 0, 1, 2, 0, 0, 1, 0, FINISH, ZARIS_OK, 0, "t"},
	{"tainted write, then conflict: whose? (I8)", &usual, ZARIS_CONFLICT, APPLIED, NO, 0, 1, 2, 0, 0, 1, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "t"},
	{"tainted write, then not found", &usual, ZARIS_NOT_FOUND, APPLIED, NO, 0, 1, 2, 0, 0, 1, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "t"},
	{"an answer past the deadline counts", &usual, ZARIS_OK, APPLIED, NO, 0, 1, 1, 0, 0, 0, 1, FINISH, ZARIS_OK, 0, ""},

	/* rule 2: final statuses */
	{"wrong type", &usual, ZARIS_WRONG_TYPE, REJECTED, NO, 0, 1, 1, 0, 0, 0, 0, FINISH, ZARIS_WRONG_TYPE, 0, ""},
	{"out of memory", &usual, ZARIS_OUT_OF_MEMORY, REJECTED, NO, 0, 1, 1, 0, 0, 0, 0, FINISH, ZARIS_OUT_OF_MEMORY, 0, ""},
	{"circuit open", &usual, ZARIS_CIRCUIT_OPEN, NOT_SENT, NO, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_CIRCUIT_OPEN, 0, ""},
	{"no login left for a tainted write", &usual, ZARIS_UNAUTHENTICATED, REJECTED, NO, 0, 1, 2, 0, 0, 1, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "t"},
	{"garbage for an answer to a write", &usual, ZARIS_PROTOCOL_ERROR, IN_DOUBT, NO, 0, 1, 1, 0, 0, 0, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "t"},
	{"garbage for an answer to a read", &usual, ZARIS_PROTOCOL_ERROR, IN_DOUBT, NO, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_PROTOCOL_ERROR, 0, ""},

	/* rule 3: taint */
	{"write sent, no reply", &usual, ZARIS_TRANSPORT_ERROR, IN_DOUBT, NO, 0, 1, 1, 0, 0, 0, 0, AGAIN, 0, 100, "rsat"},
	{"write not wholly sent", &usual, ZARIS_TRANSPORT_ERROR, NOT_SENT, NO, 0, 1, 1, 0, 0, 0, 0, AGAIN, 0, 100, "rsa"},
	{"read sent, no reply", &usual, ZARIS_TRANSPORT_ERROR, IN_DOUBT, NO, 0, 0, 1, 0, 0, 0, 0, AGAIN, 0, 100, "rsa"},
	{"taint stays over a clean attempt", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 1, 2, 0, 0, 1, 0, AGAIN, 0, 200, "rsat"},
	{"ran, but says try again: in doubt", &usual, ZARIS_UNAVAILABLE, APPLIED, NO, 0, 1, 1, 0, 0, 0, 0, AGAIN, 0, 100, "rsat"},

	/* rule 4: disabled */
	{"disabled: raw status", &disabled, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_UNAVAILABLE, 0, "rs"},
	{"disabled: no hop, but the map learns", &disabled, ZARIS_MOVED, REJECTED, MOVED, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_MOVED, 0, "pr"},
	{"disabled: ASK", &disabled, ZARIS_OWNERSHIP_CHANGING, REJECTED, ASK, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_OWNERSHIP_CHANGING, 0, "r"},
	{"disabled: a write in doubt is not raw", &disabled, ZARIS_TRANSPORT_ERROR, IN_DOUBT, NO, 0, 1, 1, 0, 0, 0, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "rst"},

	/* rule 5: redirects */
	{"MOVED is followed at once", &usual, ZARIS_MOVED, REJECTED, MOVED, 0, 0, 1, 0, 0, 0, 0, FOLLOW, 0, 0, "pr"},
	{"ASK is followed at once, no patch", &usual, ZARIS_OWNERSHIP_CHANGING, REJECTED, ASK, 0, 1, 1, 0, 0, 0, 0, FOLLOW, 0, 0, "r"},
	{"a hop costs no attempt", &usual, ZARIS_MOVED, REJECTED, MOVED, 0, 0, 3, 0, 0, 0, 0, FOLLOW, 0, 0, "pr"},
	{"back at a visited node: 2 ms", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 1, 1, 0, 0, 0, FOLLOW, 0, 2, "pra"},
	{"... 4 ms", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 1, 2, 1, 0, 0, FOLLOW, 0, 4, "pra"},
	{"... 8 ms", &usual, ZARIS_OWNERSHIP_CHANGING, REJECTED, ASK, 1, 0, 1, 3, 2, 0, 0, FOLLOW, 0, 8, "ra"},
	{"the fifth hop", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 1, 4, 3, 0, 0, FOLLOW, 0, 16, "pra"},
	{"no sixth hop: an attempt", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 1, 5, 4, 0, 0, AGAIN, 0, 100, "pra"},
	{"no sixth hop, no attempt left", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 3, 5, 4, 0, 0, FINISH, ZARIS_MOVED, 0, "pr"},
	{"max_attempts 1 sends once", &once, ZARIS_MOVED, REJECTED, MOVED, 0, 0, 1, 0, 0, 0, 0, FINISH, ZARIS_MOVED, 0, "pr"},
	{"tainted write follows", &usual, ZARIS_MOVED, REJECTED, MOVED, 0, 1, 2, 0, 0, 1, 0, FOLLOW, 0, 0, "prt"},
	{"a redirect past the deadline", &usual, ZARIS_MOVED, REJECTED, MOVED, 1, 0, 1, 1, 0, 0, 2, FINISH, ZARIS_DEADLINE_EXCEEDED, 0, "pr"},

	/* rule 6: the budget */
	{"MOVED without a target waits for the map", &usual, ZARIS_MOVED, REJECTED, NO, 0, 0, 1, 0, 0, 0, 0, AGAIN, 0, 100, "ra"},
	{"READONLY likewise", &usual, ZARIS_REPLICA_WRITE_REJECTED, REJECTED, NO, 0, 1, 2, 0, 0, 0, 0, AGAIN, 0, 200, "ra"},
	{"TRYAGAIN: 8 x", &usual, ZARIS_MIGRATING, REJECTED, NO, 0, 0, 1, 0, 0, 0, 0, AGAIN, 0, 800, ""},
	{"TRYAGAIN: 8 x 2", &usual, ZARIS_MIGRATING, REJECTED, NO, 0, 0, 2, 0, 0, 0, 0, AGAIN, 0, 1600, ""},
	{"never more than 2 s", &many, ZARIS_MIGRATING, REJECTED, NO, 0, 0, 3, 0, 0, 0, 0, AGAIN, 0, 2000, ""},
	{"never more than 2 s, the 40th", &many, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 40, 0, 0, 0, 0, AGAIN, 0, 2000, "rsa"},
	{"the last attempt", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 3, 0, 0, 0, 0, FINISH, ZARIS_UNAVAILABLE, 0, "rs"},
	{"the last attempt of a tainted write", &usual, ZARIS_CONNECT_ERROR, NOT_SENT, NO, 0, 1, 3, 0, 0, 1, 0, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "rst"},
	{"too many clients: no suspicion", &usual, ZARIS_TOO_MANY_CLIENTS, NOT_SENT, NO, 0, 0, 1, 0, 0, 0, 0, AGAIN, 0, 100, ""},
	{"a delay that reaches the deadline is not begun", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 1, 0, 0, 0, 100, FINISH, ZARIS_DEADLINE_EXCEEDED, 0, "rs"},
	{"one that does not is", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 1, 0, 0, 0, 101, AGAIN, 0, 100, "rsa"},
	{"the deadline of a tainted write", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 1, 2, 0, 0, 1, 200, FINISH, ZARIS_OUTCOME_UNKNOWN, 0, "rst"},
	{"attempts are looked at before the clock", &usual, ZARIS_UNAVAILABLE, REJECTED, NO, 0, 0, 3, 0, 0, 0, 1, FINISH, ZARIS_UNAVAILABLE, 0, "rs"},
};
/* clang-format on */

static const char *
flags_of(const ZarisRetryDecision *decision, char flags[8])
{
	char *at = flags;

	if (decision->patch_slot)
		*at++ = 'p';
	if (decision->refresh)
		*at++ = 'r';
	if (decision->suspect)
		*at++ = 's';
	if (decision->await_refresh)
		*at++ = 'a';
	if (decision->tainted)
		*at++ = 't';
	*at = '\0';
	return flags;
}

TEST(cases_with_names)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const Case		  *c = &cases[i];
		ZarisRetryInput	   input = read_input(c->status);
		ZarisRetryDecision decision;
		char			   flags[8];
		int				   before = test_complaints;

		input.outcome = c->outcome;
		input.redirect = c->redirect;
		input.target_visited = c->visited;
		input.is_write = c->write;
		input.kind = c->write ? ZARIS_OP_PUT : ZARIS_OP_GET;
		input.attempts = c->attempts;
		input.hops = c->hops;
		input.revisits = c->revisits;
		input.tainted = c->tainted;
		if (c->left_ms > 0)
			input.deadline_us = NOW + c->left_ms * MS;

		decision = zaris_retry_decide(c->policy, &input);
		CHECK_INT(c->action, decision.action);
		if (c->action == FINISH)
			CHECK_TEXT(zaris_status_name(c->final), zaris_status_name(decision.status));
		else
			CHECK_INT(c->delay_ms * MS, decision.at_us - NOW);
		CHECK_TEXT(c->flags, flags_of(&decision, flags));
		if (test_complaints > before)
			printf("#   ... in \"%s\"\n", c->name);
	}
}

/* the product */

static uint64_t walked;

static bool
is_answer(ZarisStatus status)
{
	return status == ZARIS_OK || status == ZARIS_NOT_FOUND || status == ZARIS_CONFLICT;
}

static void
check_finish(const ZarisRetryPolicy *policy, const ZarisRetryInput *in, const ZarisRetryDecision *out, bool tainted)
{
	ZarisStatusClass class = zaris_status_class(in->status);
	bool past = in->deadline_us != ZARIS_NO_DEADLINE;

	/* I8: what is in doubt is reported as done, or as unknown; nothing else is ever unknown by our making. */
	if (tainted)
		CHECK(out->status == ZARIS_OK || out->status == ZARIS_OUTCOME_UNKNOWN);
	else if (in->status != ZARIS_OUTCOME_UNKNOWN)
		CHECK(out->status != ZARIS_OUTCOME_UNKNOWN);

	/* Ok is said if and only if the store said it. */
	CHECK((out->status == ZARIS_OK) == (in->status == ZARIS_OK));

	if (!tainted && class != ZARIS_CLASS_TRANSIENT)
		CHECK_INT(in->status, out->status);
	if (!tainted && class == ZARIS_CLASS_TRANSIENT && out->status != in->status)
	{
		/* Only the clock puts a word of its own in the store's place, and not where there was no choice to make. */
		CHECK_INT(ZARIS_DEADLINE_EXCEEDED, out->status);
		CHECK(past && !policy->disabled && !in->at_node);
		CHECK(in->attempts < policy->max_attempts || in->redirect != ZARIS_REDIRECT_NONE);
	}

	/* The budget is not given up early. */
	if (class == ZARIS_CLASS_TRANSIENT && !policy->disabled && !in->at_node && !past)
		CHECK(in->attempts >= policy->max_attempts);
	CHECK(!out->await_refresh);
}

static void
check_follow(const ZarisRetryPolicy *policy, const ZarisRetryInput *in, const ZarisRetryDecision *out)
{
	uint64_t pause = UINT64_C(2000) << in->revisits;

	CHECK(in->redirect != ZARIS_REDIRECT_NONE);
	CHECK(in->hops < ZARIS_MAX_HOPS);
	CHECK(policy->max_attempts > 1);
	CHECK_INT(in->now_us + (in->target_visited ? pause : 0), out->at_us);
	CHECK_INT(in->target_visited, out->await_refresh);
}

static void
check_again(const ZarisRetryPolicy *policy, const ZarisRetryInput *in, const ZarisRetryDecision *out)
{
	double delay = (double) policy->backoff_us * in->attempts * (in->status == ZARIS_MIGRATING ? 8 : 1);
	double waits = (double) (out->at_us - in->now_us);

	CHECK(in->attempts < policy->max_attempts);
	CHECK(in->redirect == ZARIS_REDIRECT_NONE || in->hops >= ZARIS_MAX_HOPS);
	CHECK(waits <= (double) ZARIS_BACKOFF_CAP_US);
	CHECK(waits <= delay * 1.2 + 1);
	CHECK(waits >= (delay * 0.8 < (double) ZARIS_BACKOFF_CAP_US ? delay * 0.8 : (double) ZARIS_BACKOFF_CAP_US) - 1);
	CHECK_INT(out->refresh, out->await_refresh);
}

static void
check_one(const ZarisRetryPolicy *policy, const ZarisRetryInput *in)
{
	ZarisRetryDecision out = zaris_retry_decide(policy, in);
	ZarisStatusClass class = zaris_status_class(in->status);
	bool tainted = in->tainted ||
				   (in->is_write && (in->outcome == IN_DOUBT || (in->outcome == APPLIED && class == ZARIS_CLASS_TRANSIENT)));
	int before = test_complaints;

	walked++;
	CHECK_INT(tainted, out.tainted);

	/* Only transient statuses are retried (I7 with them), never when disabled, never at a node. */
	if (out.action != FINISH)
	{
		CHECK(class == ZARIS_CLASS_TRANSIENT && !policy->disabled && !in->at_node && policy->max_attempts > 1);
		CHECK(out.at_us >= in->now_us);
		CHECK(in->deadline_us == ZARIS_NO_DEADLINE || out.at_us < in->deadline_us);
	}
	if (is_answer(in->status))
		CHECK_INT(FINISH, out.action);

	/* The map learns from every transient answer, whatever becomes of the operation, and from nothing else. */
	CHECK_INT(class == ZARIS_CLASS_TRANSIENT && in->redirect == MOVED, out.patch_slot);
	CHECK_INT(zaris_status_refresh(in->status) != ZARIS_REFRESH_NONE, out.refresh);
	CHECK_INT(zaris_status_refresh(in->status) == ZARIS_REFRESH_SUSPECT, out.suspect);
	CHECK(!out.await_refresh || out.refresh || in->target_visited);

	if (out.action == FINISH)
		check_finish(policy, in, &out, tainted);
	else if (out.action == FOLLOW)
		check_follow(policy, in, &out);
	else
		check_again(policy, in, &out);

	if (test_complaints > before && before < TEST_COMPLAINTS_SHOWN)
		printf("#   ... status %s outcome %d redirect %d visited %d write %d node %d attempts %d/%d hops %d tainted %d disabled %d left %lld\n",
			   zaris_status_name(in->status), in->outcome, in->redirect, in->target_visited, in->is_write, in->at_node,
			   in->attempts, policy->max_attempts, in->hops, in->tainted, policy->disabled,
			   (long long) (in->deadline_us - in->now_us));
}

static void
walk_deadlines(const ZarisRetryPolicy *policy, ZarisRetryInput *in)
{
	static const uint64_t left[] = {0, 1, 2 * MS, 100 * MS, 60000 * MS};
	static const double	  jitters[] = {-1.0, 0.0, 1.0};

	for (int i = 0; i < 3; i++)
	{
		in->jitter = jitters[i];
		in->deadline_us = ZARIS_NO_DEADLINE;
		check_one(policy, in);
		for (size_t j = 0; j < sizeof(left) / sizeof(left[0]); j++)
		{
			in->deadline_us = NOW + left[j];
			check_one(policy, in);
		}
		in->deadline_us = NOW - 5; /* long past */
		check_one(policy, in);
	}
}

static void
walk_history(const ZarisRetryPolicy *policy, ZarisRetryInput *in)
{
	static const int attempts[] = {1, 2, 3, 4};
	static const int hops[] = {0, 1, 4, 5, 6};

	for (int a = 0; a < 4; a++)
	{
		for (int h = 0; h < 5; h++)
		{
			in->attempts = attempts[a];
			in->hops = hops[h];
			in->revisits = hops[h] > 4 ? 4 : hops[h];
			walk_deadlines(policy, in);
		}
	}
}

static void
walk_operations(const ZarisRetryPolicy *policy, ZarisRetryInput *in)
{
	static const ZarisOperationKind kinds[] = {ZARIS_OP_GET, ZARIS_OP_PUT, ZARIS_OP_DELETE, ZARIS_OP_SCAN_PAGE};

	for (int k = 0; k < 4; k++)
	{
		in->kind = kinds[k];
		in->is_write = k == 1 || k == 2;
		in->at_node = k == 3;
		for (int p = ZARIS_IF_ABSENT; p <= (in->is_write ? ZARIS_IF_MATCH_VERSION : ZARIS_IF_ABSENT); p++)
		{
			in->precondition = (ZarisPrecondition) p;
			for (int tainted = 0; tainted <= in->is_write; tainted++)
			{
				in->tainted = tainted;
				walk_history(policy, in);
			}
		}
	}
}

TEST(the_whole_product)
{
	static const ZarisRetryPolicy *const policies[] = {&usual, &once, &disabled};

	for (int p = 0; p < 3; p++)
	{
		for (int status = 0; status < ZARIS_STATUS_COUNT; status++)
		{
			ZarisRetryInput in = read_input((ZarisStatus) status);

			for (int outcome = NOT_SENT; outcome <= IN_DOUBT; outcome++)
			{
				for (int redirect = NO; redirect <= ASK; redirect++)
				{
					for (int visited = 0; visited <= (redirect != NO); visited++)
					{
						in.outcome = (ZarisOutcome) outcome;
						in.redirect = (ZarisRedirectKind) redirect;
						in.target_visited = visited;
						walk_operations(policies[p], &in);
					}
				}
			}
		}
	}
	CHECK(walked > 5000000);
	printf("# %llu decisions\n", (unsigned long long) walked);
}

/* numbers out of the ordinary */

TEST(strange_numbers)
{
	ZarisRetryInput	   in = read_input(ZARIS_UNAVAILABLE);
	ZarisRetryPolicy   policy = {INT32_MAX, UINT64_MAX / 2, false};
	ZarisRetryDecision out;

	in.attempts = INT32_MAX - 1;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(AGAIN, out.action);
	CHECK_INT(NOW + ZARIS_BACKOFF_CAP_US, out.at_us);

	policy.backoff_us = 0;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(NOW, out.at_us);

	policy.backoff_us = 100 * MS;
	in.attempts = 1;
	in.jitter = NAN;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(NOW + 80 * MS, out.at_us);
	in.jitter = 1e300;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(NOW + 120 * MS, out.at_us);

	/* a policy nobody should make */
	policy.max_attempts = 0;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(FINISH, out.action);
	policy.max_attempts = -5;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(FINISH, out.action);

	/* a status from outside the list ends the operation as what it is: damage */
	in.status = (ZarisStatus) 1000;
	policy.max_attempts = 3;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(FINISH, out.action);
	CHECK_INT(ZARIS_PROTOCOL_ERROR, out.status);

	/* revisits without end */
	in = read_input(ZARIS_MOVED);
	in.redirect = MOVED;
	in.target_visited = true;
	in.revisits = 1000;
	out = zaris_retry_decide(&policy, &in);
	CHECK_INT(FOLLOW, out.action);
	CHECK_INT(NOW + ZARIS_BACKOFF_CAP_US, out.at_us);
}

int
main(void)
{
	RUN(cases_with_names);
	RUN(the_whole_product);
	RUN(strange_numbers);
	return test_end();
}
