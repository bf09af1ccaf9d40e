/*
 * test_scan.c
 *	  Scans over a cluster that does not hold still: every key that existed throughout exactly once, or an error (I11).
 */
#include "client/scan.h"

#include <stdlib.h>

#include "fake_store.h"
#include "test.h"

#define MS	 UINT64_C(1000)
#define MANY 100000

static ZarisStore	   *fake;
static ZarisClient	   *client;
static ZarisScan	   *scan;
static ZarisScanRequest request;

/* What a scan gave: how often each key "slot:number" came, by number. */
static int			 times[MANY];
static int			 n_rows;
static bool			 values_are_right;
static ZarisScanStep last_step;

/* What happens while it runs; called before each command, and after each row. */
static void (*meanwhile)(void);
static int n_meanwhile;

static void
set_policy(int max_attempts, bool disabled)
{
	ZarisRetryPolicy policy = {max_attempts, 100 * MS, disabled};

	zaris_client_set_policy(client, &policy);
}

static void
key_of(int number, char key[32])
{
	snprintf(key, 32, "%d:%d", (number * 131) % fake->n_slots, number);
}

/* Put keys 0 .. n-1 where their slots' owners are. */
static void
put_keys(int n)
{
	for (int i = 0; i < n; i++)
	{
		char key[32];
		char value[32];

		key_of(i, key);
		snprintf(value, sizeof(value), "v%d", i);
		fake_put(fake, fake->nodes[0].owner[(i * 131) % fake->n_slots], key, value);
	}
}

static void
begin(int n_nodes, int n_slots, int n_keys)
{
	fake = fake_create(n_nodes, n_slots);
	client = fake_open(fake, n_nodes);
	put_keys(n_keys);
	memset(&request, 0, sizeof(request));
	request.page_size = 100;
	request.want = ZARIS_WANT_VALUE;
	meanwhile = NULL;
	n_meanwhile = 0;
}

static void
end(void)
{
	zaris_scan_end(scan);
	scan = NULL;
	fake_close(fake, client);
}

static void
note_row(const ZarisRecord *record)
{
	int	 slot;
	int	 number;
	char text[64];
	char value[64];

	n_rows++;
	snprintf(text, sizeof(text), "%.*s", (int) record->key.len, record->key.data);
	if (sscanf(text, "%d:%d", &slot, &number) != 2 || number < 0 || number >= MANY)
	{
		CHECK(!"a key of the test");
		return;
	}
	times[number]++;
	if (!(request.want & ZARIS_WANT_VALUE))
		return;
	snprintf(value, sizeof(value), "v%d", number);
	if (record->value.data == NULL || record->value.len != strlen(value) ||
		memcmp(record->value.data, value, record->value.len) != 0)
		values_are_right = false;
}

static bool
takes_a_step(void *context)
{
	ZarisRecord record;
	int		   *most = context;

	while ((last_step = zaris_scan_next(scan, &record)) == ZARIS_SCAN_ROW)
	{
		note_row(&record);
		if (meanwhile != NULL)
			meanwhile();
		if (n_rows == *most)
			return true;
	}
	if (meanwhile != NULL && last_step == ZARIS_SCAN_WAIT)
		meanwhile();
	return last_step != ZARIS_SCAN_WAIT;
}

/* Go on until the end, a failure, or `most` rows. */
static void
go_on(int most)
{
	if (!fake_run(fake, takes_a_step, &most))
		CHECK(!"the scan hangs");
}

static void
start(void)
{
	memset(times, 0, sizeof(times));
	n_rows = 0;
	values_are_right = true;
	scan = zaris_scan_begin(client, &request);
}

static void
run(void)
{
	start();
	go_on(-1);
}

/* Every key of 0 .. n-1 once, and nothing else. */
static void
check_complete(int n)
{
	int before = test_complaints;

	CHECK_INT(ZARIS_SCAN_END, last_step);
	if (last_step == ZARIS_SCAN_FAILED)
		printf("#   ... %s: %s\n", zaris_status_name(zaris_scan_failure(scan)->status), zaris_scan_failure(scan)->text);
	CHECK_INT(n, n_rows);
	for (int i = 0; i < n && test_complaints < before + 3; i++)
	{
		if (times[i] != 1 && test_complain(__FILE__, __LINE__))
			printf("key %d:%d came %d times\n", (i * 131) % fake->n_slots, i, times[i]);
	}
	CHECK(values_are_right);
}

static void
check_failed(ZarisStatus status)
{
	CHECK_INT(ZARIS_SCAN_FAILED, last_step);
	CHECK_TEXT(zaris_status_name(status), zaris_status_name(zaris_scan_failure(scan)->status));
}

static void
before(ZarisStore *store, int node, ZarisOperation *operation)
{
	(void) store;
	(void) node;
	(void) operation;
	if (meanwhile != NULL)
		meanwhile();
}

/* a cluster at rest */

TEST(a_cluster_at_rest)
{
	static const int counts[] = {0, 1, 99, 100, 101, 5000};

	for (int i = 0; i < 6; i++)
	{
		begin(3, ZARIS_MAX_SLOTS, counts[i]);
		run();
		check_complete(counts[i]);
		CHECK_INT(6, fake_sends(fake, -1, ZARIS_OP_NODE_STATE));
		CHECK_INT(0, fake_sends(fake, -1, ZARIS_OP_LIST_SLOTS));
		CHECK_INT(counts[i], fake_sends(fake, -1, ZARIS_OP_GET));
		CHECK_INT(counts[i], zaris_scan_stats(scan)->keys);
		CHECK_INT(0, zaris_scan_stats(scan)->slots_again);
		last_step = zaris_scan_next(scan, &(ZarisRecord){{0}, {0}, NULL, 0, 0, false, 0});
		CHECK_INT(ZARIS_SCAN_END, last_step); /* and again */
		end();
	}
}

TEST(keys_only_fetch_nothing)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	request.want = 0;
	run();
	check_complete(3000);
	CHECK_INT(0, fake_sends(fake, -1, ZARIS_OP_GET));
	end();
}

TEST(only_keys_under_the_prefix)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	fake_put(fake, 0, "131:1", "v1"); /* there already; and one beside it */
	request.prefix = (ZarisBytes){"131:", 4};
	run();
	CHECK_INT(ZARIS_SCAN_END, last_step);
	CHECK_INT(1, n_rows);
	CHECK_INT(1, times[1]);
	end();
}

TEST(duplicates_are_dropped)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	fake->duplicates = 30;
	run();
	check_complete(3000);
	CHECK(zaris_scan_stats(scan)->duplicates > 500);
	end();
}

TEST(empty_pages_are_not_the_end)
{
	begin(1, ZARIS_MAX_SLOTS, 2000);
	request.prefix = (ZarisBytes){"0:", 2};
	request.page_size = 10;
	run();
	CHECK_INT(ZARIS_SCAN_END, last_step);
	CHECK_INT(1, times[0]);
	CHECK_INT(1, n_rows);
	CHECK(zaris_scan_stats(scan)->pages >= 200);
	end();
}

TEST(fields_of_a_hash)
{
	static const ZarisBytes fields[] = {{"f", 1}, {"g", 1}};
	ZarisRecord				record;

	begin(3, ZARIS_MAX_SLOTS, 10);
	request.fields = fields;
	request.n_fields = 2;
	start();
	while ((last_step = zaris_scan_next(scan, &record)) != ZARIS_SCAN_END)
	{
		if (last_step == ZARIS_SCAN_ROW)
		{
			CHECK_INT(2, record.n_fields);
			CHECK_BYTES("g", record.fields[1].name.data, record.fields[1].name.len);
			CHECK(record.fields[1].value.data != NULL);
			n_rows++;
		}
		else
		{
			fake->now_us += 100;
			fake_turn(fake);
		}
	}
	CHECK_INT(10, n_rows);
	end();
}

TEST(a_store_that_is_not_partitioned)
{
	begin(1, 1, 2500);
	fake->duplicates = 10;
	run();
	check_complete(2500);
	CHECK_INT(0, fake_sends(fake, -1, ZARIS_OP_NODE_STATE));
	end();
}

TEST(a_store_whose_pages_carry_records)
{
	begin(1, 1, 0);
	fake_close(fake, client);
	fake = fake_create(1, 1);
	fake->capabilities = ZARIS_CAN_RECORDS | ZARIS_CAN_ORDER | ZARIS_CAN_COUNT;
	fake->answers_in_flush = true;
	client = fake_open(fake, 1);
	put_keys(2500);
	run();
	check_complete(2500);
	CHECK_INT(0, fake_sends(fake, -1, ZARIS_OP_GET));
	zaris_scan_end(scan);

	/* A page that fails is asked for again where it stopped, since nothing sorts out what came before. */
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "busy");
	run();
	check_complete(2500);
	zaris_scan_end(scan);
	start();
	go_on(500);
	fake_say(fake, 0, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "busy");
	go_on(-1);
	check_complete(2500);
	end();
}

/* few rows */

TEST(a_limit_asks_for_little)
{
	begin(3, ZARIS_MAX_SLOTS, 5000);
	request.page_size = 1000;
	request.row_hint = 1;
	start();
	go_on(1);
	CHECK_INT(1, n_rows);
	CHECK_INT(3, fake_sends(fake, -1, ZARIS_OP_SCAN_PAGE));
	CHECK_INT(10, fake_sends(fake, -1, ZARIS_OP_GET));
	CHECK(zaris_scan_stats(scan)->keys <= 30);
	end();

	/* When it wants more after all, the pages grow. */
	begin(1, ZARIS_MAX_SLOTS, 5000);
	request.page_size = 1000;
	request.row_hint = 1;
	run();
	check_complete(5000);
	CHECK(zaris_scan_stats(scan)->pages <= 10);
	end();
}

TEST(the_next_page_is_on_its_way)
{
	begin(1, ZARIS_MAX_SLOTS, 5000);
	request.want = 0;
	start();
	go_on(1);
	CHECK_INT(2, fake_sends(fake, 0, ZARIS_OP_SCAN_PAGE));
	fake_advance(fake, 10 * MS);
	go_on(99); /* the reader is slow: no third page before the first is used up */
	CHECK_INT(2, fake_sends(fake, 0, ZARIS_OP_SCAN_PAGE));
	go_on(101);
	CHECK_INT(3, fake_sends(fake, 0, ZARIS_OP_SCAN_PAGE));
	end();
}

TEST(what_was_asked_for_goes_out_before_the_rows_are_used)
{
	int flushes;

	begin(1, ZARIS_MAX_SLOTS, 5000);
	request.want = 0;
	start();
	go_on(100);
	fake_advance(fake, MS);
	flushes = fake->n_flushes;
	go_on(101); /* the first row of the second page */
	CHECK(fake->n_flushes > flushes);
	CHECK(zaris_client_timeout_ms(client) != 0); /* nothing waits to be flushed */
	end();
}

/* slots that move */

/* From a node not yet scanned to one that is: SCAN alone would show such keys nowhere. */
TEST(a_slot_moves_to_a_scanned_node)
{
	for (int n = 0; n < 3000; n += 211)
	{
		begin(3, ZARIS_MAX_SLOTS, 3000);
		request.want = n % 2 ? ZARIS_WANT_VALUE : 0;
		start();
		go_on(n + 1);
		for (int i = 0; i < 40; i++)
		{
			int slot = (i * 131 * 13) % ZARIS_MAX_SLOTS;
			int from = fake->nodes[0].owner[slot];

			fake_move_slot(fake, slot, from, (from + 1) % 3);
		}
		go_on(-1);
		check_complete(3000);
		CHECK(zaris_scan_stats(scan)->slots_again > 0);
		end();
	}
}

/* Away from one node only, which gains nothing: its epoch stays, but the slots are no longer its own. */
TEST(slots_that_only_leave)
{
	for (int n = 0; n < 1500; n += 97)
	{
		begin(3, ZARIS_MAX_SLOTS, 3000);
		start();
		go_on(n + 1);
		for (int i = 0; i < 3000; i += 5)
		{
			if (fake->nodes[0].owner[(i * 131) % ZARIS_MAX_SLOTS] == 0)
				fake_move_slot(fake, (i * 131) % ZARIS_MAX_SLOTS, 0, 1);
		}
		go_on(-1);
		check_complete(3000);
		end();
	}
}

/* A slot that leaves and comes back while its keys are not looked at: only the epoch tells. */
TEST(a_slot_that_comes_back)
{
	begin(2, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(1500);
	for (int i = 0; i < 3000; i += 7)
	{
		int slot = (i * 131) % ZARIS_MAX_SLOTS;
		int from = fake->nodes[0].owner[slot];

		fake_move_slot(fake, slot, from, 1 - from);
	}
	fake_advance(fake, 20 * MS);
	go_on(2000);
	for (int i = 0; i < 3000; i += 7)
	{
		int slot = (i * 131) % ZARIS_MAX_SLOTS;
		int from = fake->nodes[0].owner[slot];

		fake_move_slot(fake, slot, from, 1 - from);
	}
	go_on(-1);
	check_complete(3000);
	end();
}

/* An open slot throughout: half of its keys here, half there. */
TEST(an_open_slot)
{
	begin(3, 64, 3000);
	fake_open_slot(fake, 5, 0, 2);
	fake_open_slot(fake, 6, 0, 2);
	fake_open_slot(fake, 7, 0, 1);
	fake_move_keys(fake, 5, 0, 2, 20);
	fake_move_keys(fake, 7, 0, 1, 20);
	run();
	check_complete(3000);

	/* The source at last, to see that it still is one: before, after and once for each of two targets. */
	CHECK_INT(4, fake_sends(fake, 0, ZARIS_OP_NODE_STATE));
	end();
}

static void
move_a_key(void)
{
	n_meanwhile++;
	fake_move_keys(fake, 5, 0, 2, 1);
}

TEST(an_open_slot_whose_keys_move_meanwhile)
{
	begin(3, 64, 3000);
	fake_open_slot(fake, 5, 0, 2);
	fake->before = before;
	meanwhile = move_a_key;
	run();
	check_complete(3000);
	end();
}

/*
 * Between the list of the source and the list of the target the slot goes all the way over and back, and is opened
 * anew.  The keys that had moved are back on the source, which was listed without them: only its epoch, asked for
 * once more, tells.
 */
static bool went_over_and_back;

static void
go_over_and_back(ZarisStore *store, int node, ZarisOperation *operation)
{
	const ZarisSlotRequest *list = operation->scan;

	if (went_over_and_back || node != 2 || operation->kind != ZARIS_OP_LIST_SLOTS || list->slots[0] != 5)
		return;
	went_over_and_back = true;
	fake_move_keys(store, 5, 0, 2, MANY);
	fake_hand_over(store, 5, 0, 2);
	fake_move_slot(store, 5, 2, 0);
	fake_open_slot(store, 5, 0, 2);
}

TEST(an_open_slot_that_goes_over_and_back)
{
	begin(3, 64, 2900);
	request.want = 0;
	fake_open_slot(fake, 5, 0, 2);
	fake_move_keys(fake, 5, 0, 2, 20);
	went_over_and_back = false;
	fake->before = go_over_and_back;
	run();
	CHECK(went_over_and_back);
	check_complete(2900);
	end();
}

/* Opened in the middle of a walk: what left the source before it was looked at is with the target. */
static void
open_in_between(void)
{
	if (++n_meanwhile == 10)
		fake_open_slot(fake, 5, 0, 2);
	else if (n_meanwhile > 10)
		fake_move_keys(fake, 5, 0, 2, 1);
}

TEST(a_slot_that_is_opened_meanwhile)
{
	begin(3, 64, 2900);
	fake->before = before;
	meanwhile = open_in_between;
	run();
	check_complete(2900);
	end();
}

static void
finish_in_between(void)
{
	n_meanwhile++;
	if (n_meanwhile == 60)
		fake_hand_over(fake, 5, 0, 2);
	else if (n_meanwhile < 60)
		fake_move_keys(fake, 5, 0, 2, 1);
}

TEST(an_open_slot_that_is_handed_over_meanwhile)
{
	begin(3, 64, 2900);
	fake_open_slot(fake, 5, 0, 2);
	fake->before = before;
	meanwhile = finish_in_between;
	run();
	check_complete(2900);
	end();
}

/*
 * Slots 5 and 40 of 64 travel to and fro all the time: at each command something happens.  Each way has its four steps:
 * open, keys one by one, hand-over on the target first (the others learn at the next step).
 */
typedef struct Traveller
{
	int slot;
	int from;
	int to;
	int step;
} Traveller;

static Traveller travellers[2];
static int		 pace; /* every so many round trips one step */
static uint64_t	 stepped_at;

static void
travel(void)
{
	Traveller *t = &travellers[n_meanwhile % 2];

	/* Not while one and the same pipeline is answered: a slot does not go round the cluster in a single moment. */
	if (fake->now_us == stepped_at)
		return;
	stepped_at = fake->now_us;
	if (++n_meanwhile % pace != 0)
		return;
	switch (t->step++)
	{
		case 0:
			fake_open_slot(fake, t->slot, t->from, t->to);
			break;
		case 1:
		case 2:
			fake_move_keys(fake, t->slot, t->from, t->to, 20);
			break;
		case 3:
			fake_move_keys(fake, t->slot, t->from, t->to, MANY);
			break;
		case 4:
			/* The target knows, the source does not yet. */
			fake->epoch++;
			fake->nodes[t->to].epoch = fake->nodes[t->to].known_epoch = fake->epoch;
			fake->nodes[t->to].owner[t->slot] = t->to;
			fake->nodes[t->to].importing[t->slot] = -1;
			break;
		case 5:
			fake_hand_over(fake, t->slot, t->from, t->to);
			break;
		default:
			t->from = t->to;
			t->to = (t->to + 1) % 3;
			t->step = 0;
			break;
	}
}

static void
travel_to_and_fro(int seed, int n_keys, int want)
{
	begin(3, 64, n_keys);
	fake->random_state = (uint64_t) seed;
	fake->duplicates = seed % 3;
	request.want = want;
	request.page_size = 50 + seed % 100;
	travellers[0] = (Traveller){5, 0, 1, seed % 7};
	travellers[1] = (Traveller){40, 1, 2, 0};
	if (travellers[0].step > 0)
	{
		fake_open_slot(fake, 5, 0, 1);
		travellers[0].step = 1;
	}
	pace = 1 + seed % 12;
	fake->before = before;
	meanwhile = travel;
	run();
}

TEST(slots_that_travel_to_and_fro)
{
	int		 complete = 0;
	uint64_t again = 0;

	for (int seed = 0; seed < 150; seed++)
	{
		travel_to_and_fro(seed, 1500, seed % 4 == 0 ? 0 : ZARIS_WANT_VALUE);
		check_complete(1500);
		complete += last_step == ZARIS_SCAN_END;
		again += zaris_scan_stats(scan)->slots_again;
		end();
	}
	CHECK_INT(150, complete);
	CHECK(again > 500); /* it was not for nothing */
}

/* A slot that never holds still for as long as its list takes ends the scan, in time. */
static void
flip(void)
{
	int from = fake->nodes[0].owner[5];

	fake_move_slot(fake, 5, from, 1 - from);
}

static void
flip_twice(void)
{
	flip();
	flip();
}

TEST(a_slot_that_will_not_hold_still)
{
	uint64_t begun;

	/* Away at every other command: the map is always wrong about it. */
	begin(2, 64, 500);
	request.want = 0;
	fake->before = before;
	meanwhile = flip_twice;
	begun = fake->now_us;
	run();

	/* Each list sees it at home, and its epoch the same before and after: that is as good as still. */
	check_complete(500);
	end();

	/* Migrating somewhere else each time it is looked at. */
	begin(2, 64, 500);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].owner[5] = 7;
	fake->nodes[7].in_map = true;
	fake->nodes[7].primary = false; /* all say that it owns the slot, but it says that it is a replica */
	begun = fake->now_us;
	run();
	check_failed(ZARIS_OWNERSHIP_CHANGING);
	CHECK_INT(1, zaris_scan_failure(scan)->slots_left);
	CHECK(strstr(zaris_scan_failure(scan)->text, "did not hold still") != NULL);
	CHECK(fake->now_us - begun > 500 * MS && fake->now_us - begun < 3000 * MS);
	end();
}

TEST(slots_too_large_to_be_listed)
{
	begin(3, 64, 3000);
	fake->slot_limit = 10; /* each has about 47 */
	start();
	go_on(100);
	for (int slot = 0; slot < 64; slot += 9)
	{
		int from = fake->nodes[0].owner[slot];

		fake_move_slot(fake, slot, from, (from + 1) % 3);
	}
	fake_open_slot(fake, 1, 0, 2); /* and open ones among them */
	fake_move_keys(fake, 1, 0, 2, 30);
	go_on(-1);
	check_complete(3000);
	end();
}

/* nodes that fail */

TEST(a_node_dies_for_good)
{
	uint64_t begun;

	for (int n = 1; n < 2500; n += 500)
	{
		begin(3, ZARIS_MAX_SLOTS, 3000);
		start();
		go_on(n);
		for (int i = 0; i < 3; i++)
			fake->nodes[i].dead = true;
		begun = fake->now_us;
		go_on(-1);
		check_failed(ZARIS_CONNECT_ERROR);
		CHECK_TEXT("connection refused", zaris_scan_failure(scan)->text);
		CHECK(zaris_scan_failure(scan)->operation != NULL);
		CHECK(fake->now_us - begun < 2000 * MS);
		CHECK_INT(ZARIS_SCAN_FAILED, zaris_scan_next(scan, &(ZarisRecord){{0}, {0}, NULL, 0, 0, false, 0}));
		end();
	}
}

static uint64_t failover_at;

static void
fail_over_in_time(void)
{
	if (failover_at != 0 && fake->now_us >= failover_at)
	{
		failover_at = 0;
		fake_fail_over(fake, 1, 4);
	}
}

TEST(a_failover_within_the_budget)
{
	for (int n = 1; n < 3000; n += 700)
	{
		begin(3, ZARIS_MAX_SLOTS, 3000);
		set_policy(50, false);
		start();
		go_on(n);
		fake->nodes[1].dead = true;
		failover_at = fake->now_us + 2500 * MS;
		fake->before = before;
		meanwhile = fail_over_in_time;
		go_on(-1);
		check_complete(3000);
		end();
	}
}

TEST(a_connection_that_breaks_once)
{
	for (int n = 1; n < 3000; n += 450)
	{
		begin(3, ZARIS_MAX_SLOTS, 3000);
		start();
		go_on(n);
		for (int node = 0; node < 3; node++)
			fake_say(fake, node, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
		go_on(-1);
		check_complete(3000);
		end();
	}

	/* Without slots: again from the beginning. */
	begin(1, 1, 3000);
	start();
	go_on(1000);
	fake_say(fake, 0, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
	go_on(-1);
	check_complete(3000);
	end();
}

TEST(after_a_failure_whole_nodes_are_paged_again)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(500);
	fake_say(fake, 1, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
	go_on(-1);
	check_complete(3000);
	CHECK_INT(0, fake_sends(fake, -1, ZARIS_OP_LIST_SLOTS));
	end();
}

TEST(a_final_status_ends_it_at_once)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(500);
	fake_say(fake, 2, ZARIS_PERMISSION_DENIED, ZARIS_OUTCOME_REJECTED, "NOPERM scan");
	go_on(-1);
	check_failed(ZARIS_PERMISSION_DENIED);
	CHECK_TEXT("NOPERM scan", zaris_scan_failure(scan)->text);
	end();
}

TEST(disabled_ends_it_at_once_too)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	set_policy(3, true);
	start();
	go_on(1);
	fake_say(fake, 2, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED, "LOADING");
	go_on(-1);
	check_failed(ZARIS_UNAVAILABLE);
	CHECK(fake->n_scripts == 0);
	end();
}

TEST(a_slot_without_owner)
{
	uint64_t begun;

	begin(3, ZARIS_MAX_SLOTS, 3000);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].owner[77] = -1;
	begun = fake->now_us;
	run();
	check_failed(ZARIS_UNAVAILABLE);
	CHECK_TEXT("no node owns slot 77", zaris_scan_failure(scan)->text);
	CHECK_INT(1, zaris_scan_failure(scan)->slots_left);
	CHECK(fake->now_us - begun < 1000 * MS);
	end();
}

TEST(no_map)
{
	begin(3, ZARIS_MAX_SLOTS, 30);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].dead = true;
	run();
	check_failed(ZARIS_CONNECT_ERROR);
	CHECK_TEXT("connection refused", zaris_scan_failure(scan)->text);
	CHECK_INT(9, fake->n_fetched); /* three attempts at three seeds */
	end();

	begin(3, ZARIS_MAX_SLOTS, 30);
	for (int i = 0; i < FAKE_NODES; i++)
		fake->nodes[i].map_status = ZARIS_BAD_CREDENTIALS;
	run();
	check_failed(ZARIS_BAD_CREDENTIALS);
	CHECK_INT(1, fake->n_fetched);
	end();
}

/* deadlines */

TEST(a_deadline_while_a_node_hangs)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(1);
	fake->nodes[1].hangs = true;
	zaris_scan_set_deadline(scan, fake->now_us + 700 * MS);
	go_on(-1);
	check_failed(ZARIS_DEADLINE_EXCEEDED);
	end();
}

TEST(a_deadline_in_a_pause)
{
	uint64_t begun;

	begin(3, ZARIS_MAX_SLOTS, 3000);
	set_policy(50, false);
	start();
	go_on(1);
	fake->nodes[1].dead = true;
	begun = fake->now_us;
	zaris_scan_set_deadline(scan, begun + 700 * MS);
	go_on(-1);
	CHECK(fake->now_us - begun <= 701 * MS);
	check_failed(ZARIS_DEADLINE_EXCEEDED);
	end();
}

TEST(a_deadline_holds_only_while_somebody_waits)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	zaris_scan_set_deadline(scan, fake->now_us + 50 * MS);
	go_on(10);
	zaris_scan_set_deadline(scan, ZARIS_NO_DEADLINE);
	fake->now_us += 3600 * UINT64_C(1000000); /* an idle cursor */
	go_on(-1);
	check_complete(3000);
	end();
}

/* records that change */

static void
remove_some(void)
{
	char key[32];
	int	 node;

	if (n_meanwhile >= 300)
		return;
	key_of(n_meanwhile * 10, key);
	node = fake->nodes[0].owner[fake_slot(key, strlen(key))];
	fake_remove(fake, node, key);
	n_meanwhile++;
}

TEST(keys_that_vanish_are_left_out)
{
	int missing = 0;

	begin(3, ZARIS_MAX_SLOTS, 3000);
	fake->before = before;
	meanwhile = remove_some;
	run();
	CHECK_INT(ZARIS_SCAN_END, last_step);
	for (int i = 0; i < 3000; i++)
	{
		CHECK(times[i] == 1 || (times[i] == 0 && i % 10 == 0));
		missing += times[i] == 0;
	}
	CHECK(missing > 100);
	CHECK(zaris_scan_stats(scan)->vanished > 0);
	end();
}

TEST(records_of_another_kind_are_left_out)
{
	char key[32];

	begin(3, ZARIS_MAX_SLOTS, 3000);
	for (int i = 0; i < 3000; i += 3)
	{
		key_of(i, key);
		fake_find(fake, fake->nodes[0].owner[fake_slot(key, strlen(key))], key)->kind = ZARIS_RECORD_HASH;
	}
	run();
	CHECK_INT(2000, n_rows);
	end();
}

/* What lies about on a node that does not own its slot must not come. */
TEST(orphans_are_none_of_the_keys)
{
	begin(3, ZARIS_MAX_SLOTS, 300);
	fake_put(fake, 2, "5:99", "stale");
	fake_put(fake, 2, "6:98", "stale");
	run();
	check_complete(300);
	CHECK_INT(2, zaris_scan_stats(scan)->foreign_slots);
	end();
}

TEST(values_that_cannot_be_fetched_end_it)
{
	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(1);
	for (int i = 0; i < 3; i++)
		fake->nodes[i].hangs = true;
	zaris_scan_set_deadline(scan, fake->now_us + 100 * MS);
	go_on(-1);
	check_failed(ZARIS_DEADLINE_EXCEEDED);
	end();
}

/* ends */

TEST(scans_end_at_any_point)
{
	for (int n = 0; n < 400; n++)
	{
		ZarisBatch	   *batch;
		ZarisOperation *op;
		int				answered;

		begin(3, 64, 500);
		travellers[0] = (Traveller){5, 0, 1, 0};
		travellers[1] = (Traveller){40, 1, 2, 0};
		pace = 2;
		fake->before = before;
		meanwhile = travel;
		if (n % 5 == 0)
			fake_say(fake, 1, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT, "reset");
		start();
		for (int step = 0; step < n; step++)
		{
			ZarisRecord record;

			if (zaris_scan_next(scan, &record) == ZARIS_SCAN_WAIT)
			{
				fake->now_us += 100;
				fake_turn(fake);
			}
		}
		answered = fake->callbacks_at;
		if (n % 2)
			zaris_scan_abandon(scan);
		else
			zaris_scan_end(scan);
		scan = NULL;
		CHECK_INT(answered, fake->callbacks_at);
		meanwhile = NULL;

		/* the client lives on */
		batch = zaris_batch_create(client);
		op = fake_get(batch, "0:0");
		CHECK(fake_run_batch(fake, batch));
		CHECK_INT(ZARIS_OK, op->status);
		zaris_batch_free(batch);
		fake_close(fake, client);
	}
}

TEST(two_scans_at_once)
{
	ZarisScan  *first;
	ZarisRecord record;
	int			rows = 0;

	begin(3, ZARIS_MAX_SLOTS, 3000);
	start();
	go_on(10);
	first = scan;
	start();
	go_on(-1);
	check_complete(3000);
	zaris_scan_end(scan);
	scan = first;
	for (;;)
	{
		ZarisScanStep step = zaris_scan_next(scan, &record);

		if (step == ZARIS_SCAN_END || step == ZARIS_SCAN_FAILED)
			break;
		if (step == ZARIS_SCAN_ROW)
			rows++;
		else
		{
			fake->now_us += 100;
			fake_turn(fake);
		}
	}
	CHECK_INT(2990, rows);
	end();
}

int
main(void)
{
	RUN(a_cluster_at_rest);
	RUN(keys_only_fetch_nothing);
	RUN(only_keys_under_the_prefix);
	RUN(duplicates_are_dropped);
	RUN(empty_pages_are_not_the_end);
	RUN(fields_of_a_hash);
	RUN(a_store_that_is_not_partitioned);
	RUN(a_store_whose_pages_carry_records);
	RUN(a_limit_asks_for_little);
	RUN(the_next_page_is_on_its_way);
	RUN(what_was_asked_for_goes_out_before_the_rows_are_used);
	RUN(a_slot_moves_to_a_scanned_node);
	RUN(slots_that_only_leave);
	RUN(a_slot_that_comes_back);
	RUN(an_open_slot);
	RUN(an_open_slot_whose_keys_move_meanwhile);
	RUN(an_open_slot_that_goes_over_and_back);
	RUN(a_slot_that_is_opened_meanwhile);
	RUN(an_open_slot_that_is_handed_over_meanwhile);
	RUN(slots_that_travel_to_and_fro);
	RUN(a_slot_that_will_not_hold_still);
	RUN(slots_too_large_to_be_listed);
	RUN(a_node_dies_for_good);
	RUN(a_failover_within_the_budget);
	RUN(a_connection_that_breaks_once);
	RUN(after_a_failure_whole_nodes_are_paged_again);
	RUN(a_final_status_ends_it_at_once);
	RUN(disabled_ends_it_at_once_too);
	RUN(a_slot_without_owner);
	RUN(no_map);
	RUN(a_deadline_while_a_node_hangs);
	RUN(a_deadline_in_a_pause);
	RUN(a_deadline_holds_only_while_somebody_waits);
	RUN(keys_that_vanish_are_left_out);
	RUN(records_of_another_kind_are_left_out);
	RUN(orphans_are_none_of_the_keys);
	RUN(values_that_cannot_be_fetched_end_it);
	RUN(scans_end_at_any_point);
	RUN(two_scans_at_once);
	return test_end();
}
