/*
 * test_client.c
 *	  The client core on a store with a clock of its own: redirects, retries, the single-flight refresh, deadlines,
 *	  unknown outcomes, and ends of every kind.
 */
#include "client/client.h"

#include <stdlib.h>

#include "fake_store.h"
#include "test.h"

#define MS UINT64_C(1000)

static ZarisStore  *fake;
static ZarisClient *client;
static ZarisBatch  *batch;

static void
set_policy(int max_attempts, uint64_t backoff_ms, bool disabled)
{
	ZarisRetryPolicy policy = {max_attempts, backoff_ms * MS, disabled};

	zaris_client_set_policy(client, &policy);
}

/* Three nodes with a third of 16384 slots each: slot 1 lies on node 0, 6000 on 1, 12000 on 2. */
static void
begin_with(int n_nodes, int n_slots, int n_seeds)
{
	fake = fake_create(n_nodes, n_slots);
	client = fake_open(fake, n_seeds);
	batch = zaris_batch_create(client);
}

static void
begin(void)
{
	begin_with(3, ZARIS_MAX_SLOTS, 3);
	fake_put(fake, 0, "1:a", "va");
	fake_put(fake, 1, "6000:b", "vb");
	fake_put(fake, 2, "12000:c", "vc");
}

static void
end(void)
{
	zaris_batch_free(batch);
	fake_close(fake, client);
	batch = NULL;
}

static void
run(void)
{
	CHECK(fake_run_batch(fake, batch));
}

/* Have the map known, and forget what that took. */
static void
warm(void)
{
	fake_get(batch, "1:a");
	run();
	zaris_batch_reset(batch);
	fake->n_log = fake->n_fetched = 0;
}

/* ... and let the debounce pass. */
static void
warm_and_rest(void)
{
	warm();
	fake->now_us += 600 * MS;
}

static void
check_status(ZarisStatus expected, const ZarisOperation *operation)
{
	CHECK_INT(ZARIS_OPERATION_DONE, operation->state);
	CHECK_TEXT(zaris_status_name(expected), zaris_status_name(operation->status));
}

static uint64_t
elapsed_ms(const ZarisOperation *operation)
{
	return (operation->finished_us - operation->started_us) / MS;
}

/* the usual way */

TEST(reads_and_writes)
{
	ZarisOperation *a,
		*b,
		*c,
		*none,
		*put,
		*dup,
		*cas,
		*stale;

	begin();
	a = fake_get(batch, "1:a");
	b = fake_get(batch, "6000:b");
	c = fake_get(batch, "12000:c");
	none = fake_get(batch, "1:none");
	CHECK_INT(4, zaris_batch_pending(batch));
	CHECK(!zaris_batch_is_done(batch));
	CHECK_INT(0, fake->n_log); /* nothing before the map is known */
	run();
	check_status(ZARIS_OK, a);
	check_status(ZARIS_OK, b);
	check_status(ZARIS_OK, c);
	check_status(ZARIS_NOT_FOUND, none);
	CHECK_BYTES("va", a->result.data, a->result.len);
	CHECK_BYTES("vc", c->result.data, c->result.len);
	CHECK_INT(1, fake->n_fetched);
	CHECK_INT(2, fake_sends(fake, 0, ZARIS_OP_GET));
	CHECK_INT(1, fake_sends(fake, 1, ZARIS_OP_GET));
	CHECK_INT(1, a->attempts);
	CHECK_INT(1, a->n_visited);

	zaris_batch_reset(batch);
	put = fake_put_op(batch, "1:new", "x", ZARIS_IF_ABSENT, 0);
	dup = fake_put_op(batch, "6000:b", "x", ZARIS_IF_ABSENT, 0);
	cas = fake_put_op(batch, "12000:c", "w", ZARIS_IF_MATCH_VERSION, 1);
	stale = fake_put_op(batch, "1:a", "w", ZARIS_IF_MATCH_VERSION, 17);
	run();
	check_status(ZARIS_OK, put);
	check_status(ZARIS_CONFLICT, dup);
	check_status(ZARIS_OK, cas);
	check_status(ZARIS_CONFLICT, stale);
	CHECK_INT(1, dup->attempts); /* I7 */
	CHECK_TEXT("w", fake_find(fake, 2, "12000:c")->value);
	CHECK_TEXT("va", fake_find(fake, 0, "1:a")->value);

	CHECK_INT(8, zaris_client_stats(client)->operations);
	CHECK_INT(8, zaris_client_stats(client)->requests);
	CHECK_INT(0, zaris_client_stats(client)->retries);
	CHECK_INT(1, zaris_client_stats(client)->refreshes);
	CHECK_INT(2, zaris_client_stats(client)->flushes);
	CHECK_INT(6, zaris_client_stats(client)->result_bytes);
	end();
}

TEST(a_store_that_is_not_partitioned)
{
	ZarisOperation *op;

	begin_with(1, 1, 1);
	fake_put(fake, 0, "5:x", "v");
	CHECK(zaris_client_capabilities(client) & ZARIS_CAN_PARTITION);
	op = fake_get(batch, "5:x");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(0, zaris_client_slot(client, "5:x", 3));
	CHECK(!(zaris_client_capabilities(client) & ZARIS_CAN_PARTITION));
	end();
}

TEST(a_store_that_answers_in_flush)
{
	ZarisOperation *op[100];
	char			keys[100][16];

	begin();
	fake->answers_in_flush = true;
	for (int i = 0; i < 100; i++)
	{
		snprintf(keys[i], sizeof(keys[i]), "%d:k", i * 160);
		op[i] = fake_put_op(batch, keys[i], "v", ZARIS_IF_ABSENT, 0);
	}
	run();
	for (int i = 0; i < 100; i++)
		check_status(ZARIS_OK, op[i]);

	fake_move_slot(fake, 160, 0, 2); /* a redirect on the way */
	zaris_batch_reset(batch);
	op[0] = fake_get(batch, keys[1]);
	run();
	check_status(ZARIS_OK, op[0]);
	CHECK_INT(1, op[0]->hops);
	end();
}

/* redirects */

TEST(moved_is_followed_at_once)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_move_slot(fake, 1, 0, 2);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(1, op->attempts);
	CHECK_INT(1, op->hops);
	CHECK_INT(0, op->revisits);
	CHECK_INT(2, op->n_visited);
	CHECK_INT(0, elapsed_ms(op));								/* two round trips of 100 us, no pause */
	CHECK_INT(2, zaris_map_owner(zaris_client_map(client), 1)); /* patched at once */
	CHECK_INT(1, zaris_client_stats(client)->redirects);
	fake_advance(fake, 10 * MS);
	CHECK_INT(1, fake->n_fetched); /* the refresh beside it */

	/* The next one goes there straight. */
	fake->n_log = 0;
	zaris_batch_reset(batch);
	fake_get(batch, "1:a");
	run();
	CHECK_INT(1, fake->n_log);
	CHECK_INT(2, fake->log[0].node);
	end();
}

TEST(many_moved_make_one_refresh)
{
	char keys[100][16];

	begin();
	warm_and_rest();
	for (int i = 0; i < 100; i++)
	{
		fake_move_slot(fake, i, 0, 1);
		snprintf(keys[i], sizeof(keys[i]), "%d:k", i);
		fake_get(batch, keys[i]);
	}
	run();
	fake_advance(fake, 100 * MS);
	CHECK_INT(200, fake->n_log);
	CHECK_INT(1, fake->n_fetched);
	end();
}

TEST(ask_is_followed_with_asking_and_leaves_the_map)
{
	ZarisOperation *here,
		*gone;

	begin();
	fake_put(fake, 0, "1:stays", "v0");
	warm_and_rest();
	fake_open_slot(fake, 1, 0, 2);
	fake_put(fake, 2, "1:a", "moved");
	fake_remove(fake, 0, "1:a");
	here = fake_get(batch, "1:stays");
	gone = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, here);
	check_status(ZARIS_OK, gone);
	CHECK_BYTES("moved", gone->result.data, gone->result.len);
	CHECK_INT(1, gone->hops);
	CHECK_INT(0, elapsed_ms(gone));
	CHECK_INT(0, zaris_map_owner(zaris_client_map(client), 1));
	CHECK_INT(3, fake->n_log);
	CHECK(fake->log[2].asking && fake->log[2].node == 2);
	CHECK(!fake->log[0].asking && !fake->log[1].asking);
	end();
}

TEST(two_nodes_that_point_at_each_other)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 1);
	fake_say_redirect(fake, 1, ZARIS_REDIRECT_MOVED, 1, 0);
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 1);
	for (int i = 0; i < 3; i++)
		fake->nodes[i].owner[1] = 1; /* the refresh finds it on node 1, which is told by then */
	fake_put(fake, 1, "1:a", "there");
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(1, op->attempts);
	CHECK(op->revisits >= 1);
	CHECK(fake->n_fetched >= 1);

	/* 0 -> 1 at once, then a pause of 2 ms and the refresh before the next */
	CHECK(fake->log[1].at_us - fake->log[0].at_us < MS);
	CHECK(fake->log[2].at_us - fake->log[1].at_us >= 2 * MS);
	CHECK(fake->log[2].at_us - fake->log[1].at_us < 4 * MS);
	end();
}

/* After the pause the map knows better than the old redirect. */
TEST(the_map_decides_after_a_revisit)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 1);
	fake_say_redirect(fake, 1, ZARIS_REDIRECT_MOVED, 1, 0);
	fake_move_slot(fake, 1, 0, 2);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(3, fake->n_log);
	CHECK_INT(2, fake->log[2].node);
	end();
}

/* MOVED <-> MOVED without an end: five hops with pauses, then attempts with backoff, then the raw status. */
TEST(an_endless_loop_ends)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	for (int i = 0; i < 20; i++)
	{
		fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 1);
		fake_say_redirect(fake, 1, ZARIS_REDIRECT_MOVED, 1, 0);
	}
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_MOVED, op);
	CHECK_INT(3, op->attempts);
	CHECK_INT(5, op->hops);
	CHECK_INT(8, fake->n_log);
	CHECK_INT(8, op->n_visited);
	CHECK(elapsed_ms(op) >= 300 && elapsed_ms(op) < 1000);
	end();
}

TEST(asked_back_and_forth)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();

	/* The owner is migrating, the target knows nothing of it: ASK -> MOVED -> ASK ... */
	fake->nodes[0].migrating[1] = 2;
	op = fake_get(batch, "1:gone");
	run();
	check_status(ZARIS_OWNERSHIP_CHANGING, op); /* what the owner says when there is no hop left */
	CHECK_INT(3, op->attempts);
	CHECK_INT(5, op->hops);
	end();
}

TEST(a_node_that_redirects_to_itself)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 0);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(1, fake->n_disconnects); /* dialled anew, once */
	CHECK_INT(1, op->hops);
	CHECK_INT(1, op->revisits);
	CHECK(fake->log[1].at_us - fake->log[0].at_us >= 2 * MS);
	end();
}

TEST(no_connection_is_cut_under_others)
{
	ZarisOperation *redirected,
		*other;

	begin();
	warm_and_rest();
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 0);
	fake->latency_us = 20 * MS;
	other = fake_put_op(batch, "2:x", "v", ZARIS_IF_ABSENT, 0);
	fake_turn(fake);
	fake->latency_us = 100;
	redirected = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, redirected);
	check_status(ZARIS_OK, other);
	CHECK(!other->tainted);
	CHECK_INT(0, fake->n_disconnects);

	/* Once nothing is in flight there it is done. */
	fake_get(batch, "1:a");
	run();
	CHECK_INT(1, fake->n_disconnects);
	end();
}

TEST(a_target_that_cannot_be_dialled)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(2, op->attempts);
	CHECK_INT(0, op->hops);
	CHECK_INT(1, fake->n_fetched);
	CHECK(elapsed_ms(op) >= 80);
	end();
}

TEST(a_node_that_no_map_named)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_put(fake, 7, "1:a", "far");
	fake_move_slot(fake, 1, 0, 7);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(7, fake->log[1].node);
	end();
}

/* retries */

TEST(unavailable_is_retried_with_backoff)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "LOADING dataset");
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "LOADING dataset");
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(3, op->attempts);
	CHECK_TEXT("", op->error_text);
	CHECK(fake->log[1].at_us - fake->log[0].at_us >= 80 * MS && fake->log[1].at_us - fake->log[0].at_us <= 125 * MS);
	CHECK(fake->log[2].at_us - fake->log[1].at_us >= 160 * MS && fake->log[2].at_us - fake->log[1].at_us <= 245 * MS);

	zaris_batch_reset(batch);
	for (int i = 0; i < 3; i++)
		fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "CLUSTERDOWN down");
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_UNAVAILABLE, op);
	CHECK_INT(3, op->attempts);
	CHECK_TEXT("CLUSTERDOWN down", op->error_text);
	CHECK_INT(ZARIS_UNAVAILABLE, op->last_status);
	end();
}

TEST(migrating_waits_eight_times_as_long)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	fake_say(fake, 0, ZARIS_MIGRATING, ZARIS_OUTCOME_REJECTED, "TRYAGAIN");
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK(fake->log[1].at_us - fake->log[0].at_us >= 640 * MS);
	CHECK_INT(0, fake->n_fetched);
	end();
}

TEST(disabled_sends_once)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	set_policy(3, 100, true);
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "x");
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_UNAVAILABLE, op);
	fake_move_slot(fake, 1, 0, 1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_MOVED, op);
	CHECK_INT(2, fake->n_log);
	CHECK_INT(0, op->hops);
	end();
}

TEST(one_attempt_sends_once)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	set_policy(1, 100, false);
	fake->nodes[0].dead = true;
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_CONNECT_ERROR, op);
	CHECK_INT(1, fake->n_log);
	CHECK_INT(1, op->attempts);
	end();
}

TEST(a_failover_within_the_budget)
{
	ZarisOperation *op;

	begin();
	fake->nodes[3].in_map = true;
	warm_and_rest();
	set_policy(50, 100, false);
	fake->nodes[0].dead = true;
	op = fake_get(batch, "1:a");
	for (int i = 0; i < 30; i++)
		fake_advance(fake, 100 * MS); /* three seconds until the election */
	CHECK(op->state == ZARIS_OPERATION_QUEUED);
	fake_fail_over(fake, 0, 3);
	run();
	check_status(ZARIS_OK, op);
	CHECK(elapsed_ms(op) >= 3000 && elapsed_ms(op) < 5500);

	/* The dead node is never asked for the map while another one lives. */
	for (int i = 0; i < fake->n_fetched; i++)
		CHECK(!zaris_address_equal(&fake->fetched[i], &fake->nodes[0].address));
	end();
}

TEST(everything_refuses_connections)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].dead = true;
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_CONNECT_ERROR, op);
	CHECK_INT(3, op->attempts);
	CHECK_INT(3, fake->n_log);
	CHECK(elapsed_ms(op) < 1000);
	CHECK_TEXT("connection refused", op->error_text);
	CHECK_INT(0, zaris_map_owner(zaris_client_map(client), 1)); /* the old map is kept */
	end();
}

/* the map unknown, slots without owner */

TEST(no_map_no_nodes)
{
	ZarisOperation *op[20];
	ZarisStatus		status;

	begin();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].dead = true;
	for (int i = 0; i < 20; i++)
		op[i] = fake_get(batch, "1:a");
	run();
	for (int i = 0; i < 20; i++)
	{
		check_status(ZARIS_CONNECT_ERROR, op[i]);
		CHECK_INT(3, op[i]->attempts);
		CHECK_TEXT("connection refused", op[i]->error_text);
	}
	CHECK_INT(0, fake->n_log);
	CHECK(elapsed_ms(op[0]) >= 240 && elapsed_ms(op[0]) < 1000);

	/* An attempt is a refresh of all seeds, shared by all who wait at that moment. */
	CHECK(fake->n_fetched >= 9 && fake->n_fetched < 20 * 9);
	CHECK_TEXT("connection refused", zaris_client_map_error(client, &status));
	CHECK_INT(ZARIS_CONNECT_ERROR, status);

	/* They come back. */
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].dead = false;
	zaris_batch_reset(batch);
	op[0] = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op[0]);
	CHECK_TEXT("", zaris_client_map_error(client, &status));
	CHECK_INT(ZARIS_OK, status);
	end();
}

TEST(a_refused_login_is_final)
{
	static const ZarisStatus final[] = {ZARIS_UNAUTHENTICATED, ZARIS_BAD_CREDENTIALS, ZARIS_PERMISSION_DENIED};

	for (int i = 0; i < 3; i++)
	{
		ZarisOperation *op;

		begin();
		for (int n = 0; n < FAKE_NODES; n++)
		{
			fake->nodes[n].map_status = final[i];
			fake->nodes[n].map_text = "NO";
		}
		op = fake_get(batch, "1:a");
		run();
		check_status(final[i], op);
		CHECK_TEXT("NO", op->error_text);
		CHECK_INT(1, op->attempts);
		CHECK_INT(1, fake->n_fetched); /* not offered to every node */
		end();
	}
}

TEST(a_slot_without_owner)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].owner[1] = -1;
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_UNAVAILABLE, op);
	CHECK_INT(3, op->attempts);
	CHECK_TEXT("no node owns slot 1", op->error_text);

	/* It comes back. */
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].owner[1] = 0;
	fake->now_us += 600 * MS;
	zaris_batch_reset(batch);
	fake->n_fetched = 0;
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(1, op->attempts); /* it waited for the map first */
	CHECK_INT(1, fake->n_fetched);
	end();
}

/* the refresh */

TEST(the_debounce)
{
	ZarisOperation *op;

	/* The map is fresh and the slot was patched: no refresh. */
	begin();
	warm();
	fake_move_slot(fake, 1, 0, 2);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	fake_advance(fake, 50 * MS);
	CHECK_INT(0, fake->n_fetched);
	CHECK(!op->forced_refresh);
	end();

	/* Nothing was learnt since: one refresh of its own, once. */
	begin();
	warm();
	for (int i = 0; i < 2; i++)
		fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	CHECK_INT(3, op->attempts);
	CHECK(op->forced_refresh);
	CHECK_INT(1, fake->n_fetched);

	/* Past it a new one is free. */
	fake->now_us += 600 * MS;
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	fake_get(batch, "1:a");
	run();
	CHECK_INT(2, fake->n_fetched);
	end();
}

TEST(a_suspect_is_asked_last)
{
	for (int round = 0; round < 20; round++)
	{
		begin();
		fake->random_state = (uint64_t) round * 7919;
		warm_and_rest();
		fake_say(fake, 1, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
		fake_get(batch, "6000:b");
		run();
		CHECK_INT(1, fake->n_fetched);
		CHECK(!zaris_address_equal(&fake->fetched[0], &fake->nodes[1].address));
		end();
	}
}

TEST(known_nodes_then_the_suspect_then_seeds)
{
	begin_with(3, ZARIS_MAX_SLOTS, 1);
	fake_put(fake, 0, "1:a", "v");
	fake->nodes[4].in_map = true;
	warm_and_rest();

	/* The seed is node 5 by now, as if its name led elsewhere. */
	fake->nodes[0].dead = fake->nodes[1].dead = fake->nodes[2].dead = fake->nodes[4].dead = true;
	set_policy(2, 100, false);
	fake_get(batch, "6000:b");
	run();
	CHECK(fake->n_fetched >= 4);
	for (int i = 0; i < 3; i++)
		CHECK(!zaris_address_equal(&fake->fetched[i], &fake->nodes[1].address));
	CHECK(zaris_address_equal(&fake->fetched[3], &fake->nodes[1].address));

	/* The seed is one of the known nodes, which was asked already: not twice. */
	for (int i = 0; i < 4; i++)
	{
		for (int j = 0; j < i; j++)
			CHECK(!zaris_address_equal(&fake->fetched[i], &fake->fetched[j]));
	}
	end();

	/* A seed that is none of the known nodes is asked when all of those fail. */
	begin_with(3, ZARIS_MAX_SLOTS, 1);
	fake->nodes[0].in_map = false; /* the topology does not name the seed */
	for (int i = 0; i < FAKE_NODES; i++)
	{
		for (int slot = 0; slot < ZARIS_MAX_SLOTS; slot++)
			fake->nodes[i].owner[slot] = 1 + slot % 2;
	}
	fake_put(fake, 1, "2:a", "v");
	fake_get(batch, "2:a");
	run();
	fake->now_us += 600 * MS;
	fake->n_fetched = 0;
	fake->nodes[1].dead = fake->nodes[2].dead = true;
	fake_get(batch, "2:a");
	run();
	CHECK(zaris_address_equal(&fake->fetched[2], &fake->nodes[0].address));
	end();
}

TEST(a_failed_refresh_keeps_the_map)
{
	ZarisOperation *op;
	uint64_t		generation;

	begin();
	warm_and_rest();
	generation = zaris_client_map(client)->generation;
	for (int i = 0; i < FAKE_NODES; i++)
	{
		fake->nodes[i].map_status = ZARIS_PERMISSION_DENIED;
		fake->nodes[i].map_text = "NOPERM";
	}
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);	   /* the second attempt, by the old map */
	CHECK_INT(3, fake->n_fetched); /* all were asked: with a map one node's refusal is one node's */
	CHECK_INT(generation, zaris_client_map(client)->generation);
	end();
}

TEST(an_empty_or_older_map_is_not_taken)
{
	ZarisOperation *op;
	ZarisStatus		status;

	begin();
	warm_and_rest();
	for (int i = 0; i < FAKE_NODES; i++)
	{
		for (int slot = 0; slot < ZARIS_MAX_SLOTS; slot++)
			fake->nodes[i].owner[slot] = -1;
	}
	CHECK(!zaris_client_want_map(client, zaris_client_map(client)->generation));
	CHECK(zaris_client_map_pending(client));
	fake_advance(fake, 10 * MS);
	CHECK(!zaris_client_map_pending(client));
	CHECK_TEXT("node has an empty map", zaris_client_map_error(client, &status));
	CHECK_INT(ZARIS_UNAVAILABLE, status);
	CHECK_INT(0, zaris_map_owner(zaris_client_map(client), 1));
	end();

	begin();
	warm_and_rest();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].known_epoch = 2;
	zaris_client_want_map(client, zaris_client_map(client)->generation);
	fake_advance(fake, 10 * MS);
	CHECK_TEXT("node has an older map", zaris_client_map_error(client, NULL));

	/* One node that knows better is found. */
	fake->nodes[2].known_epoch = 9;
	zaris_client_want_map(client, zaris_client_map(client)->generation);
	fake_advance(fake, 10 * MS);
	CHECK_INT(9, zaris_client_map(client)->now.epoch);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op);
	end();
}

TEST(the_wait_for_a_refresh_is_bounded)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].map_hangs = true;
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, op); /* by the old map */
	CHECK(elapsed_ms(op) >= 15000 && elapsed_ms(op) < 15100);

	/* It goes on for others, and nobody starts a second one. */
	CHECK(zaris_client_map_pending(client));
	CHECK_INT(1, fake->n_fetched);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].map_hangs = false;
	fake_advance(fake, MS);
	CHECK(!zaris_client_map_pending(client));
	end();
}

TEST(the_wait_for_the_first_map_is_bounded_too)
{
	ZarisOperation *op;

	begin();
	set_policy(2, 100, false);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].map_hangs = true;
	op = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_UNAVAILABLE, op);
	CHECK_TEXT("the cluster map did not come in time", op->error_text);
	CHECK(elapsed_ms(op) >= 30000 && elapsed_ms(op) < 31000);
	end();
}

TEST(want_map)
{
	begin();
	CHECK(!zaris_client_want_map(client, 0));
	CHECK(zaris_client_map_pending(client));
	CHECK_INT(0, zaris_client_timeout_ms(client));
	CHECK(!zaris_client_want_map(client, 0));
	fake_advance(fake, 10 * MS);
	CHECK_INT(1, fake->n_fetched);
	CHECK(zaris_client_want_map(client, 0));
	CHECK(!zaris_client_map_pending(client));

	/* Asked for by name it is not debounced. */
	CHECK(!zaris_client_want_map(client, zaris_client_map(client)->generation));
	fake_advance(fake, 10 * MS);
	CHECK_INT(2, fake->n_fetched);
	end();
}

/* Who waited for a refresh that has ended is not mistaken for one who waits for the next. */
TEST(refreshes_one_after_the_other)
{
	ZarisOperation *first,
		*second;

	begin();
	warm_and_rest();
	fake->map_latency_us = 50 * MS;
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_NONE, 1, -1);
	fake_say_redirect(fake, 1, ZARIS_REDIRECT_NONE, 6000, -1);
	first = fake_get(batch, "1:a");
	fake_advance(fake, 30 * MS);
	second = fake_get(batch, "6000:b"); /* rides */
	fake_advance(fake, 10 * MS);
	CHECK_INT(1, fake->n_fetched);
	run();
	check_status(ZARIS_OK, first);
	check_status(ZARIS_OK, second);
	CHECK_INT(1, fake->n_fetched);
	end();
}

/* deadlines */

TEST(a_deadline_ends_what_hangs)
{
	ZarisOperation *get,
		*put,
		*other;

	begin();
	warm_and_rest();
	fake->nodes[0].hangs = true;
	get = fake_get(batch, "1:a");
	put = fake_put_op(batch, "1:n", "v", ZARIS_IF_ABSENT, 0);
	other = fake_get(batch, "6000:b");
	zaris_batch_set_deadline(batch, fake->now_us + 500 * MS);
	CHECK_INT((int64_t) (fake->now_us + 500 * MS), zaris_batch_deadline(batch));
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, get);
	check_status(ZARIS_OUTCOME_UNKNOWN, put); /* it was sent (I8) */
	check_status(ZARIS_OK, other);
	CHECK(elapsed_ms(get) >= 500 && elapsed_ms(get) <= 501);
	CHECK(fake->n_disconnects >= 1); /* I10 */

	/* The client is as good as new. */
	fake->nodes[0].hangs = false;
	zaris_batch_reset(batch);
	zaris_batch_set_deadline(batch, ZARIS_NO_DEADLINE);
	get = fake_get(batch, "1:a");
	run();
	check_status(ZARIS_OK, get);
	end();
}

/* The same with a driver that says nothing when it is told to break off: then the worst is assumed. */
TEST(a_deadline_with_a_silent_driver)
{
	ZarisOperation *get,
		*put;

	begin();
	warm_and_rest();
	fake->nodes[0].never_connects = true;
	fake->breaks_off_later = true;
	get = fake_get(batch, "1:a");
	put = fake_put_op(batch, "1:n", "v", ZARIS_IF_ABSENT, 0);
	zaris_batch_set_deadline(batch, fake->now_us + 500 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, get);
	check_status(ZARIS_OUTCOME_UNKNOWN, put);
	CHECK_INT(1, fake->n_broken);
	end();
}

TEST(a_write_that_never_left_is_not_in_doubt)
{
	ZarisOperation *put;

	begin();
	warm_and_rest();
	fake->nodes[0].never_connects = true;
	put = fake_put_op(batch, "1:n", "v", ZARIS_IF_ABSENT, 0);
	zaris_batch_set_deadline(batch, fake->now_us + 500 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, put);
	CHECK(!put->tainted);
	end();
}

TEST(an_answer_that_came_is_taken_before_the_deadline)
{
	ZarisOperation *get;

	begin();
	warm_and_rest();
	get = fake_get(batch, "1:a");
	zaris_batch_set_deadline(batch, fake->now_us + 1 * MS);
	fake_turn(fake);
	fake->now_us += 3600 * UINT64_C(1000000); /* an hour in which nobody turned */
	fake_turn(fake);
	check_status(ZARIS_OK, get);
	end();
}

TEST(a_deadline_in_a_backoff)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();

	/* A backoff that would reach it is not begun. */
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "BUSY");
	op = fake_get(batch, "1:a");
	zaris_batch_set_deadline(batch, fake->now_us + 50 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, op);
	CHECK_INT(ZARIS_UNAVAILABLE, op->last_status);
	CHECK_TEXT("BUSY", op->error_text);
	CHECK(elapsed_ms(op) < 10);

	/* One that was begun while nobody waited ends with it. */
	zaris_batch_reset(batch);
	zaris_batch_set_deadline(batch, ZARIS_NO_DEADLINE);
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "BUSY");
	op = fake_get(batch, "1:a");
	fake_advance(fake, MS);
	zaris_batch_set_deadline(batch, fake->now_us + 20 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, op);
	CHECK(elapsed_ms(op) <= 22);
	CHECK_INT(2, fake->n_log);

	/* Both the backoff and the deadline are over when the client is turned again: nothing is sent any more. */
	zaris_batch_reset(batch);
	zaris_batch_set_deadline(batch, ZARIS_NO_DEADLINE);
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "BUSY");
	op = fake_get(batch, "1:a");
	fake_advance(fake, MS);
	zaris_batch_set_deadline(batch, fake->now_us + 20 * MS);
	fake->now_us += 500 * MS;
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, op);
	CHECK_INT(3, fake->n_log);
	end();
}

TEST(a_deadline_in_the_wait_for_a_map)
{
	ZarisOperation *op;

	begin();
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].map_hangs = true;
	op = fake_get(batch, "1:a");
	zaris_batch_set_deadline(batch, fake->now_us + 200 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, op);
	CHECK(elapsed_ms(op) >= 200 && elapsed_ms(op) <= 201);
	end();
}

TEST(a_deadline_is_one_batch_s)
{
	ZarisBatch	   *other;
	ZarisOperation *mine,
		*theirs;

	begin();
	warm_and_rest();
	other = zaris_batch_create(client);
	fake->nodes[0].hangs = true;
	mine = fake_get(batch, "1:a");
	theirs = fake_get(other, "6000:b");
	zaris_batch_set_deadline(batch, fake->now_us + 10 * MS);
	run();
	check_status(ZARIS_DEADLINE_EXCEEDED, mine);
	CHECK(fake_run_batch(fake, other));
	check_status(ZARIS_OK, theirs);

	/* Two batches at one node: its connection is closed under both, and the other one goes on by itself. */
	mine = fake_get(batch, "1:a");
	theirs = fake_get(other, "1:a");
	zaris_batch_set_deadline(other, fake->now_us + 3600 * UINT64_C(1000000));
	zaris_batch_set_deadline(batch, fake->now_us + 10 * MS);
	run();
	fake->nodes[0].hangs = false;
	CHECK(fake_run_batch(fake, other));
	check_status(ZARIS_OK, theirs);
	zaris_batch_free(other);
	end();
}

/* unknown outcomes */

TEST(a_lost_reply_taints)
{
	ZarisOperation *absent,
		*cas,
		*present,
		*read;

	begin();
	warm_and_rest();
	fake->nodes[0].loses_replies = true;
	absent = fake_put_op(batch, "1:n", "v", ZARIS_IF_ABSENT, 0);
	cas = fake_put_op(batch, "1:a", "w", ZARIS_IF_MATCH_VERSION, 1);
	present = fake_put_op(batch, "2:b", "w", ZARIS_IF_PRESENT, 0);
	read = fake_get(batch, "1:a");
	fake_advance(fake, 50 * MS);
	CHECK(absent->tainted && cas->tainted && present->tainted && !read->tainted);
	fake->nodes[0].loses_replies = false;
	run();

	/* They were applied, but what the second attempt sees may be another's work. */
	check_status(ZARIS_OUTCOME_UNKNOWN, absent);
	check_status(ZARIS_OUTCOME_UNKNOWN, cas);
	CHECK_INT(ZARIS_CONFLICT, cas->last_status);
	check_status(ZARIS_OUTCOME_UNKNOWN, present); /* not found: it never was there, or is gone */
	check_status(ZARIS_OK, read);
	end();
}

TEST(a_lost_write_is_written_again)
{
	ZarisOperation *cas;

	/* In doubt, but it had not been applied: the second attempt applies it, which proves all there is to prove. */
	begin();
	warm_and_rest();
	fake_say(fake, 0, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
	cas = fake_put_op(batch, "1:a", "w", ZARIS_IF_MATCH_VERSION, 1);
	run();
	check_status(ZARIS_OK, cas);
	CHECK(cas->tainted);
	CHECK_TEXT("w", fake_find(fake, 0, "1:a")->value);
	end();
}

TEST(not_sent_never_taints)
{
	ZarisOperation *cas;

	begin();
	warm_and_rest();
	fake->nodes[0].dead = true;
	cas = fake_put_op(batch, "1:a", "w", ZARIS_IF_MATCH_VERSION, 1);
	fake_advance(fake, 50 * MS);
	CHECK_INT(1, cas->attempts); /* but it is an attempt */
	fake->nodes[0].dead = false;
	fake_put(fake, 0, "1:a", "another's");
	run();
	check_status(ZARIS_CONFLICT, cas);
	CHECK(!cas->tainted);
	end();
}

TEST(taint_outlives_redirects_and_budgets)
{
	ZarisOperation *cas;

	begin();
	warm_and_rest();
	fake_say(fake, 0, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "LOADING");
	fake_say_redirect(fake, 0, ZARIS_REDIRECT_MOVED, 1, 1);
	fake_say(fake, 1, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "LOADING");
	cas = fake_put_op(batch, "1:a", "w", ZARIS_IF_MATCH_VERSION, 1);
	run();
	check_status(ZARIS_OUTCOME_UNKNOWN, cas);
	CHECK_INT(ZARIS_UNAVAILABLE, cas->last_status);
	CHECK_INT(3, cas->attempts);
	CHECK_INT(1, cas->hops);
	end();
}

/* ends of every kind */

/* A batch with operations in every state of their life. */
static void
make_all_states(ZarisBatch *in)
{
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "BUSY");
	fake_get(in, "1:a");
	fake_advance(fake, 5 * MS); /* in backoff */
	fake->nodes[1].hangs = true;
	fake_get(in, "6000:b");
	fake_put_op(in, "6000:x", "v", ZARIS_IF_ABSENT, 0);
	fake_turn(fake); /* sent */
	for (int i = 0; i < FAKE_NODES; i++)
	{
		fake->nodes[i].owner[12001] = -1;
		fake->nodes[i].map_hangs = true;
	}
	fake_say_redirect(fake, 2, ZARIS_REDIRECT_NONE, 12001, -1);
	fake_get(in, "12001:z");
	fake_advance(fake, 5 * MS); /* awaits a refresh */
	fake_get(in, "12000:c");	/* composed */
	zaris_batch_operation(in);	/* new */
}

TEST(batches_end_at_any_point)
{
	for (int broken = 0; broken <= 1; broken++)
	{
		ZarisBatch	   *other;
		ZarisOperation *op;
		int				answered;

		begin();
		warm_and_rest();
		other = zaris_batch_create(client);
		make_all_states(other);
		zaris_batch_set_deadline(other, fake->now_us + 50 * MS);
		CHECK_INT(5, zaris_batch_pending(other));
		answered = fake->callbacks_at;
		if (broken)
			zaris_batch_abandon(other);
		else
			zaris_batch_free(other);
		CHECK_INT(1, fake->n_detached);
		CHECK_INT(broken, fake->n_broken);
		CHECK_INT(answered, fake->callbacks_at); /* called nothing back */

		/* Nothing of it is left: past its deadline, its backoff and all replies nothing happens. */
		fake->nodes[1].hangs = false;
		for (int i = 0; i < FAKE_NODES; i++)
			fake->nodes[i].map_hangs = false;
		fake_advance(fake, 5000 * MS);
		CHECK_INT(answered, fake->callbacks_at);
		op = fake_get(batch, "6000:b");
		run();
		check_status(ZARIS_OK, op);
		end();
	}
}

/* Ended in the middle of whatever is going on, at each millisecond of it. */
TEST(batches_end_at_every_moment)
{
	for (int moment = 0; moment < 700; moment += 3)
	{
		ZarisBatch *other;

		begin();
		fake->nodes[3].in_map = true;
		warm_and_rest();
		other = zaris_batch_create(client);
		fake->nodes[0].dead = true;
		fake->nodes[1].loses_replies = true;
		fake_move_slot(fake, 12000, 2, 3);
		fake_get(other, "1:a");
		fake_put_op(other, "6000:x", "v", ZARIS_IF_ABSENT, 0);
		fake_get(other, "12000:c");
		fake_advance(fake, (uint64_t) moment * MS);
		if (moment % 2)
			zaris_batch_abandon(other);
		else
			zaris_batch_free(other);
		fake->nodes[0].dead = fake->nodes[1].loses_replies = false;
		fake_get(batch, "1:a");
		run();
		end();
	}
}

TEST(the_client_closes_with_everything_open)
{
	ZarisScanRequest request = {0};
	ZarisBatch		*other;
	ZarisScan		*scan;
	ZarisRecord		 record;

	begin();
	warm_and_rest();
	request.page_size = 10;
	request.want = ZARIS_WANT_VALUE;
	scan = zaris_scan_begin(client, &request);
	CHECK_INT(ZARIS_SCAN_WAIT, zaris_scan_next(scan, &record));
	other = zaris_batch_create(client);
	make_all_states(other);
	zaris_client_want_map(client, 99);
	fake_close(fake, client); /* batches and scan go with it */
}

TEST(a_free_batch_in_a_wait_for_others)
{
	ZarisBatch *other;

	/* Its deadline must not be looked at any more. */
	begin();
	warm_and_rest();
	other = zaris_batch_create(client);
	fake->nodes[0].hangs = true;
	fake_get(other, "1:a");
	zaris_batch_set_deadline(other, fake->now_us + 10 * MS);
	fake_turn(fake);
	zaris_batch_free(other);
	fake->nodes[0].hangs = false;
	fake_get(batch, "6000:b");
	fake_advance(fake, 100 * MS);
	CHECK(zaris_batch_is_done(batch));
	end();
}

/* I6: every operation ends once, whatever happens, and none is forgotten. */
TEST(everything_ends_exactly_once)
{
	static char keys[2000][32];

	for (int seed = 1; seed <= 10; seed++)
	{
		ZarisOperation *op[2000];
		uint64_t		operations;

		begin_with(4, ZARIS_MAX_SLOTS, 2);
		fake->random_state = (uint64_t) seed;
		for (int i = 0; i < 2000; i++)
		{
			snprintf(keys[i], sizeof(keys[i]), "%d:k%d", (i * 131) % ZARIS_MAX_SLOTS, i);
			op[i] = i % 3 == 0 ? fake_put_op(batch, keys[i], "v", ZARIS_IF_ABSENT, 0) : fake_get(batch, keys[i]);
		}
		zaris_batch_set_deadline(batch, fake->now_us + 900 * MS);
		for (int step = 0; step < 60; step++)
		{
			FakeNode *node = &fake->nodes[(seed + step) % 4];
			int		  slot = (step * 131) % ZARIS_MAX_SLOTS;
			int		  from = fake->nodes[0].owner[slot];

			node->dead = step % 7 == 0;
			node->hangs = step % 11 == 0;
			node->loses_replies = step % 5 == 0;
			fake_move_slot(fake, slot, from, (from + 1) % 4);
			fake_advance(fake, 10 * MS);
		}
		operations = zaris_client_stats(client)->operations;
		run();
		CHECK_INT(2000, zaris_client_stats(client)->operations);
		CHECK(operations <= 2000);
		for (int i = 0; i < 2000; i++)
		{
			CHECK_INT(ZARIS_OPERATION_DONE, op[i]->state);
			CHECK(op[i]->status < ZARIS_STATUS_COUNT);
			if (op[i]->status == ZARIS_OK && op[i]->kind == ZARIS_OP_PUT)
			{
				bool found = false;

				for (int n = 0; n < 4; n++)
					found |= fake_find(fake, n, keys[i]) != NULL;
				CHECK(found); /* what is acknowledged is there */
			}
		}
		end();
	}
}

/* small things */

TEST(nodes_are_addressed_within_bounds)
{
	static const int ids[] = {-1, -5, 3, 99999, INT32_MAX};

	begin();
	warm_and_rest();
	for (int i = 0; i < 5; i++)
	{
		ZarisOperation *op = zaris_batch_operation(batch);

		op->kind = ZARIS_OP_NODE_STATE;
		op->node = ids[i];
		zaris_batch_submit(batch, op);
		run();
		check_status(ZARIS_INVALID_REQUEST, op);
	}
	end();
}

TEST(at_a_node_there_is_one_attempt)
{
	ZarisOperation *op;

	begin();
	warm_and_rest();
	op = zaris_batch_operation(batch);
	fake->nodes[1].dead = true;
	op->kind = ZARIS_OP_NODE_STATE;
	op->node = 1;
	zaris_batch_submit(batch, op);
	run();
	check_status(ZARIS_CONNECT_ERROR, op);
	CHECK_INT(1, op->attempts);
	fake_advance(fake, 10 * MS);
	CHECK_INT(1, fake->n_fetched); /* but the map learns of it */
	CHECK(!zaris_address_equal(&fake->fetched[0], &fake->nodes[1].address));
	end();
}

TEST(memory_of_a_batch)
{
	ZarisBatch *other;
	char	   *first;

	begin();
	other = zaris_batch_create(client);
	for (int round = 0; round < 3; round++)
	{
		char *large;

		first = zaris_batch_alloc(other, 1);
		CHECK(((uintptr_t) first & 15) == 0);
		for (int i = 0; i < 5000; i++)
		{
			char *memory = zaris_batch_alloc(other, (size_t) (i % 700));

			CHECK(memory != NULL && ((uintptr_t) memory & 15) == 0);
			memset(memory, 1, (size_t) (i % 700));
			CHECK(zaris_batch_operation(other)->node == ZARIS_NO_NODE);
		}
		large = zaris_batch_alloc(other, 10000000);
		memset(large, 1, 10000000);
		CHECK(zaris_batch_alloc(other, SIZE_MAX - 3) == NULL);
		CHECK(zaris_batch_alloc(other, 0) != NULL);
		CHECK(zaris_batch_client(other) == client);
		zaris_batch_reset(other);
	}
	zaris_batch_free(other);
	zaris_batch_free(NULL);
	end();
}

TEST(a_driver_of_another_version)
{
	ZarisStoreDriver   strange = {0};
	ZarisClientOptions options = {0};
	ZarisHost		   host = {0};
	const char		  *problem = NULL;

	strange.version = ZARIS_STORE_VERSION + 1;
	CHECK(zaris_client_open(&strange, &options, &host, NULL, &problem) == NULL);
	CHECK(problem != NULL);
}

int
main(void)
{
	RUN(reads_and_writes);
	RUN(a_store_that_is_not_partitioned);
	RUN(a_store_that_answers_in_flush);
	RUN(moved_is_followed_at_once);
	RUN(many_moved_make_one_refresh);
	RUN(ask_is_followed_with_asking_and_leaves_the_map);
	RUN(two_nodes_that_point_at_each_other);
	RUN(the_map_decides_after_a_revisit);
	RUN(an_endless_loop_ends);
	RUN(asked_back_and_forth);
	RUN(a_node_that_redirects_to_itself);
	RUN(no_connection_is_cut_under_others);
	RUN(a_target_that_cannot_be_dialled);
	RUN(a_node_that_no_map_named);
	RUN(unavailable_is_retried_with_backoff);
	RUN(migrating_waits_eight_times_as_long);
	RUN(disabled_sends_once);
	RUN(one_attempt_sends_once);
	RUN(a_failover_within_the_budget);
	RUN(everything_refuses_connections);
	RUN(no_map_no_nodes);
	RUN(a_refused_login_is_final);
	RUN(a_slot_without_owner);
	RUN(the_debounce);
	RUN(a_suspect_is_asked_last);
	RUN(known_nodes_then_the_suspect_then_seeds);
	RUN(a_failed_refresh_keeps_the_map);
	RUN(an_empty_or_older_map_is_not_taken);
	RUN(the_wait_for_a_refresh_is_bounded);
	RUN(the_wait_for_the_first_map_is_bounded_too);
	RUN(want_map);
	RUN(refreshes_one_after_the_other);
	RUN(a_deadline_ends_what_hangs);
	RUN(a_deadline_with_a_silent_driver);
	RUN(a_write_that_never_left_is_not_in_doubt);
	RUN(an_answer_that_came_is_taken_before_the_deadline);
	RUN(a_deadline_in_a_backoff);
	RUN(a_deadline_in_the_wait_for_a_map);
	RUN(a_deadline_is_one_batch_s);
	RUN(a_lost_reply_taints);
	RUN(a_lost_write_is_written_again);
	RUN(not_sent_never_taints);
	RUN(taint_outlives_redirects_and_budgets);
	RUN(batches_end_at_any_point);
	RUN(batches_end_at_every_moment);
	RUN(the_client_closes_with_everything_open);
	RUN(a_free_batch_in_a_wait_for_others);
	RUN(everything_ends_exactly_once);
	RUN(nodes_are_addressed_within_bounds);
	RUN(at_a_node_there_is_one_attempt);
	RUN(memory_of_a_batch);
	RUN(a_driver_of_another_version);
	return test_end();
}
