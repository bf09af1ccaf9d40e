/*
 * test_lmdb_store.c
 *	  The embedded store through the client: contents, preconditions, versions, expiry, groups, growth, damage.
 */
#include "lmdb_support.h"

static const char *directory;

/* The store's environment, for looking behind the scenes: the same one, since a file is open once in a process. */
static ZarisLmdbEnvironment *
environment_of(const char *name)
{
	ZarisLmdbProblem problem;
	ZarisLmdbEnvironment *environment = zaris_lmdb_acquire(directory, name, &problem);

	CHECK(environment != NULL);
	return environment;
}

static long
entries(const char *name, bool expiries)
{
	ZarisLmdbEnvironment *environment = environment_of(name);
	ZarisLmdbProblem problem;
	MDB_txn    *txn;
	MDB_stat	stat;

	CHECK(zaris_lmdb_begin(environment, false, &txn, &problem));
	mdb_stat(txn, expiries ? environment->expiries : environment->records, &stat);
	zaris_lmdb_abort(environment, false, txn);
	zaris_lmdb_release(environment);
	return (long) stat.ms_entries;
}

static long
transactions(const char *name)
{
	ZarisLmdbEnvironment *environment = environment_of(name);
	MDB_envinfo info;

	mdb_env_info(environment->env, &info);
	zaris_lmdb_release(environment);
	return (long) info.me_last_txnid;
}

/* Put raw bytes where a record belongs. */
static void
plant(const char *name, const char *key, ZarisBytes stored)
{
	ZarisLmdbEnvironment *environment = environment_of(name);
	ZarisLmdbProblem problem;
	char		prefixed[64];
	MDB_txn    *txn;
	MDB_val		mdb_key = {(size_t) snprintf(prefixed, sizeof(prefixed), "k%s", key), prefixed};
	MDB_val		value = {stored.len, (void *) stored.data};
	bool		in_doubt;

	CHECK(zaris_lmdb_begin(environment, true, &txn, &problem));
	CHECK_INT(mdb_put(txn, environment->records, &mdb_key, &value, 0), 0);
	CHECK_INT(zaris_lmdb_commit(environment, txn, &in_doubt), 0);
	zaris_lmdb_release(environment);
}

/* contents */

static void
check_value(Store *store, ZarisBytes key, ZarisBytes expected, int line)
{
	ZarisOperation *operation = get(store, key);

	checks++;
	if (operation->status != ZARIS_OK || !same_bytes(operation->result, expected))
	{
		failures++;
		fprintf(stderr, "line %d: %s \"%.*s\"\n", line, zaris_status_name(operation->status),
				(int) (operation->result.len < 80 ? operation->result.len : 80),
				operation->result.data == NULL ? "" : operation->result.data);
	}
}

static void
test_strings(Store *store)
{
	static const ZarisBytes keys[] = {{"", 0}, {"a", 1}, {"a\0", 2}, {"\0", 1}, {"\xff", 1}, {"a\0b", 3}};
	static const ZarisBytes values[] = {{"", 0}, {"\0", 1}, {"x", 1}, {"line\nline", 9}};
	const int	n = sizeof(keys) / sizeof(keys[0]);

	for (int i = 0; i < n; i++)
		CHECK_STATUS(get(store, keys[i])->status, ZARIS_NOT_FOUND);
	for (int i = 0; i < n; i++)
		CHECK_STATUS(put(store, keys[i], values[i % 4])->status, ZARIS_OK);
	for (int i = 0; i < n; i++)
		check_value(store, keys[i], values[i % 4], __LINE__);
	CHECK(get(store, keys[0])->result.data != NULL);	/* empty is not nil */
	for (int i = 0; i < n; i++)
		CHECK_STATUS(delete_if(store, keys[i], ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
	for (int i = 0; i < n; i++)
		CHECK_STATUS(get(store, keys[i])->status, ZARIS_NOT_FOUND);
	zaris_batch_reset(store->batch);
}

static void
test_want(Store *store)
{
	ZarisOperation *operation;

	put(store, bytes("w"), bytes("value"));
	operation = new_operation(store, ZARIS_OP_GET, bytes("w"));
	CHECK_STATUS(run(store, operation)->status, ZARIS_OK);
	CHECK(operation->result.data == NULL);
	operation = new_operation(store, ZARIS_OP_GET, bytes("w"));
	operation->record = ZARIS_RECORD_HASH;
	CHECK_STATUS(run(store, operation)->status, ZARIS_WRONG_TYPE);
	delete_if(store, bytes("w"), ZARIS_IF_PRESENT, 0);
	zaris_batch_reset(store->batch);
}

static void
test_key_lengths(Store *store)
{
	char		key[600];
	ZarisOperation *operation;

	memset(key, 'k', sizeof(key));
	CHECK_STATUS(put(store, (ZarisBytes) {key, 510}, bytes("v"))->status, ZARIS_OK);
	check_value(store, (ZarisBytes) {key, 510}, bytes("v"), __LINE__);
	operation = put(store, (ZarisBytes) {key, 511}, bytes("v"));
	CHECK_STATUS(operation->status, ZARIS_TOO_LARGE);
	CHECK(strstr(operation->error_text, "510 bytes") != NULL);
	CHECK_STATUS(get(store, (ZarisBytes) {key, 511})->status, ZARIS_NOT_FOUND);
	CHECK_STATUS(get(store, (ZarisBytes) {key, 600})->status, ZARIS_NOT_FOUND);
	CHECK_STATUS(delete_if(store, (ZarisBytes) {key, 510}, ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
	zaris_batch_reset(store->batch);
}

static void
test_sizes(Store *store)
{
	static const size_t sizes[] = {1, 1900, 2000, 2048, 4000, 4096, 4097, 65536, 1048576, 9000000};
	char	   *large = malloc(9000000);

	for (size_t i = 0; i < 9000000; i++)
		large[i] = (char) (i * 31 + (i >> 12));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		ZarisPrecondition precondition = i == 0 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT;

		CHECK_STATUS(put_if(store, bytes("size"), (ZarisBytes) {large, sizes[i]}, precondition, 0)->status, ZARIS_OK);
		check_value(store, bytes("size"), (ZarisBytes) {large, sizes[i]}, __LINE__);
		zaris_batch_reset(store->batch);
	}
	delete_if(store, bytes("size"), ZARIS_IF_PRESENT, 0);
	zaris_batch_reset(store->batch);
	free(large);
}

/* hashes */

static ZarisOperation *
put_hash(Store *store, const char *key, ZarisField *fields, int n, ZarisPrecondition precondition)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, bytes(key));

	operation->record = ZARIS_RECORD_HASH;
	operation->fields = fields;
	operation->n_fields = n;
	operation->precondition = precondition;
	return run(store, operation);
}

static ZarisOperation *
get_hash(Store *store, const char *key, ZarisField *fields, int n)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_GET, bytes(key));

	operation->record = ZARIS_RECORD_HASH;
	operation->want = ZARIS_WANT_VALUE;
	operation->fields = fields;
	operation->n_fields = n;
	return run(store, operation);
}

static void
test_hashes(Store *store)
{
	ZarisField	first[] = {{bytes("name"), bytes("Ada")}, {bytes("email"), bytes("")}, {bytes("none"), {NULL, 0}}};
	ZarisField	change[] = {{bytes("name"), {NULL, 0}}, {bytes("age"), bytes("36")}};
	ZarisField	wanted[] = {
		{bytes("none"), bytes("x")},
		{bytes("email"), {NULL, 0}},
		{bytes("age"), {NULL, 0}},
		{bytes("name"), {NULL, 0}},
	};
	ZarisOperation *operation;

	CHECK_STATUS(put_hash(store, "h", first, 3, ZARIS_IF_ABSENT)->status, ZARIS_OK);
	operation = get_hash(store, "h", NULL, 0);
	CHECK_STATUS(operation->status, ZARIS_OK);
	CHECK_INT(operation->n_all_fields, 2);
	CHECK(same_bytes(operation->all_fields[0].name, bytes("email")));
	CHECK(same_bytes(operation->all_fields[0].value, bytes("")));
	CHECK(same_bytes(operation->all_fields[1].value, bytes("Ada")));

	/* Only what changes is named; the rest stays. */
	CHECK_STATUS(put_hash(store, "h", change, 2, ZARIS_IF_PRESENT)->status, ZARIS_OK);
	CHECK_STATUS(get_hash(store, "h", wanted, 4)->status, ZARIS_OK);
	CHECK(wanted[0].value.data == NULL);
	CHECK(same_bytes(wanted[1].value, bytes("")));
	CHECK(same_bytes(wanted[2].value, bytes("36")));
	CHECK(wanted[3].value.data == NULL);

	CHECK_STATUS(get(store, bytes("h"))->status, ZARIS_WRONG_TYPE);
	CHECK_STATUS(put_if(store, bytes("h"), bytes("s"), ZARIS_IF_PRESENT, 0)->status, ZARIS_WRONG_TYPE);
	operation = new_operation(store, ZARIS_OP_DELETE, bytes("h"));
	operation->record = ZARIS_RECORD_HASH;
	operation->precondition = ZARIS_IF_PRESENT;
	CHECK_STATUS(run(store, operation)->status, ZARIS_OK);
	zaris_batch_reset(store->batch);
}

/* preconditions */

typedef enum Before
{
	ABSENT,
	PRESENT,
	OTHER_KIND,
	EXPIRED,
	N_BEFORE
} Before;

typedef enum Demand
{
	IF_ABSENT,
	IF_PRESENT,
	IF_MATCH,
	IF_MATCH_WRONG,
	N_DEMANDS
} Demand;

static const ZarisPrecondition preconditions[N_DEMANDS] = {
	[IF_ABSENT] = ZARIS_IF_ABSENT,
	[IF_PRESENT] = ZARIS_IF_PRESENT,
	[IF_MATCH] = ZARIS_IF_MATCH_VERSION,
	[IF_MATCH_WRONG] = ZARIS_IF_MATCH_VERSION,
};

/* Of Put and of Delete */
static const ZarisStatus answers[N_BEFORE][N_DEMANDS] = {
	[ABSENT] = {ZARIS_OK, ZARIS_NOT_FOUND, ZARIS_CONFLICT, ZARIS_CONFLICT},
	[PRESENT] = {ZARIS_CONFLICT, ZARIS_OK, ZARIS_OK, ZARIS_CONFLICT},
	[OTHER_KIND] = {ZARIS_WRONG_TYPE, ZARIS_WRONG_TYPE, ZARIS_WRONG_TYPE, ZARIS_WRONG_TYPE},
	[EXPIRED] = {ZARIS_OK, ZARIS_NOT_FOUND, ZARIS_CONFLICT, ZARIS_CONFLICT},
};

static int64_t
prepare(Store *store, Before before)
{
	ZarisField	fields[] = {{bytes("f"), bytes("old")}};
	ZarisOperation *operation;

	/* Whatever was there has gone, whichever kind it had. */
	for (int kind = 0; kind < 2; kind++)
	{
		operation = new_operation(store, ZARIS_OP_DELETE, bytes("p"));
		operation->record = kind == 0 ? ZARIS_RECORD_STRING : ZARIS_RECORD_HASH;
		operation->precondition = ZARIS_IF_PRESENT;
		run(store, operation);
	}
	if (before == ABSENT)
		return 1;
	if (before == OTHER_KIND)
		return put_hash(store, "p", fields, 1, ZARIS_IF_ABSENT)->version;
	operation = new_operation(store, ZARIS_OP_PUT, bytes("p"));
	operation->value = bytes("old");
	if (before == EXPIRED)
	{
		operation->expiry = ZARIS_EXPIRY_SET;
		operation->expires_at_ms = test_wall_ms;
	}
	CHECK_STATUS(run(store, operation)->status, ZARIS_OK);
	return operation->version;
}

static void
test_preconditions(Store *store)
{
	for (int i = 0; i < N_BEFORE * N_DEMANDS * 2; i++)
	{
		Before		before = (Before) (i / 2 / N_DEMANDS);
		Demand		demand = (Demand) (i / 2 % N_DEMANDS);
		bool		is_delete = i % 2 == 1;
		int64_t		version = prepare(store, before);
		ZarisStatus expected = answers[before][demand];
		ZarisOperation *operation = new_operation(store, is_delete ? ZARIS_OP_DELETE : ZARIS_OP_PUT, bytes("p"));
		ZarisOperation *after;

		operation->value = bytes("new");
		operation->precondition = preconditions[demand];
		operation->match_version = demand == IF_MATCH_WRONG ? version + 1 : version;
		CHECK_STATUS(run(store, operation)->status, expected);
		CHECK(operation->has_version == (expected == ZARIS_OK && !is_delete));

		after = get(store, bytes("p"));
		if (before == OTHER_KIND)
			CHECK_STATUS(after->status, ZARIS_WRONG_TYPE);
		else if (expected == ZARIS_OK && !is_delete)
		{
			CHECK_STATUS(after->status, ZARIS_OK);
			CHECK(same_bytes(after->result, bytes("new")));
			CHECK_INT(after->version, operation->version);
			CHECK(after->version > version);
		}
		else if (expected == ZARIS_OK || before != PRESENT)
			CHECK_STATUS(after->status, ZARIS_NOT_FOUND);
		else
		{
			CHECK(same_bytes(after->result, bytes("old")));
			CHECK_INT(after->version, version);
		}
		zaris_batch_reset(store->batch);
	}
	prepare(store, ABSENT);
}

/* versions */

static void
test_versions(void)
{
	Store		store;
	int64_t		last = 0;

	must_open(&store, directory, "versions");
	CHECK_INT(put(&store, bytes("first"), bytes("v"))->version, 1);
	last = 1;
	for (int i = 0; i < 20; i++)
	{
		ZarisOperation *operation = put(&store, bytes("k"), bytes("v"));

		CHECK(operation->has_version);
		CHECK_INT(operation->version, last + 1);
		last = operation->version;
		operation = put_if(&store, bytes("k"), bytes("w"), ZARIS_IF_MATCH_VERSION, last);
		CHECK_INT(operation->version, last + 1);
		last = operation->version;

		/* A version that was seen before matches nothing any more, though the key is made again. */
		CHECK_STATUS(put_if(&store, bytes("k"), bytes("x"), ZARIS_IF_MATCH_VERSION, last - 1)->status, ZARIS_CONFLICT);
		CHECK_STATUS(delete_if(&store, bytes("k"), ZARIS_IF_MATCH_VERSION, last)->status, ZARIS_OK);
		if (i % 5 == 0)
		{
			close_store(&store);
			must_open(&store, directory, "versions");
		}
	}
	close_store(&store);
}

/* expiry */

static ZarisOperation *
put_expiring(Store *store, const char *key, ZarisExpiryAction action, int64_t at, ZarisPrecondition precondition)
{
	ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, bytes(key));

	operation->value = bytes("v");
	operation->precondition = precondition;
	operation->expiry = action;
	operation->expires_at_ms = at;
	return run(store, operation);
}

static void
test_expiry_actions(Store *store)
{
	int64_t		soon = test_wall_ms + 1000;

	CHECK_STATUS(put_expiring(store, "e", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_ABSENT)->status, ZARIS_OK);
	CHECK_INT(get(store, bytes("e"))->expiry_ms, ZARIS_NO_EXPIRY);
	CHECK_INT(entries("expiry", true), 0);
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon, ZARIS_IF_PRESENT);
	CHECK_INT(get(store, bytes("e"))->expiry_ms, soon);
	CHECK_INT(entries("expiry", true), 1);
	put_expiring(store, "e", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_PRESENT);
	CHECK_INT(get(store, bytes("e"))->expiry_ms, soon);
	CHECK_INT(entries("expiry", true), 1);
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon + 1, ZARIS_IF_PRESENT);
	CHECK_INT(get(store, bytes("e"))->expiry_ms, soon + 1);
	CHECK_INT(entries("expiry", true), 1);
	put_expiring(store, "e", ZARIS_EXPIRY_CLEAR, 0, ZARIS_IF_PRESENT);
	CHECK_INT(get(store, bytes("e"))->expiry_ms, ZARIS_NO_EXPIRY);
	CHECK_INT(entries("expiry", true), 0);
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon, ZARIS_IF_PRESENT);
	CHECK_STATUS(delete_if(store, bytes("e"), ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
	CHECK_INT(entries("expiry", true), 0);
	CHECK_INT(entries("expiry", false), 0);
	zaris_batch_reset(store->batch);
}

static void
test_expiry_times(Store *store)
{
	int64_t		start = test_wall_ms;

	put_expiring(store, "t", ZARIS_EXPIRY_SET, start + 1000, ZARIS_IF_ABSENT);
	test_wall_ms = start + 999;
	CHECK_STATUS(get(store, bytes("t"))->status, ZARIS_OK);
	test_wall_ms = start + 1000;
	CHECK_STATUS(get(store, bytes("t"))->status, ZARIS_NOT_FOUND);

	/* A new record in the place of an expired one inherits nothing. */
	CHECK_STATUS(put_expiring(store, "t", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_ABSENT)->status, ZARIS_OK);
	CHECK_INT(get(store, bytes("t"))->expiry_ms, ZARIS_NO_EXPIRY);
	CHECK_INT(entries("expiry", true), 0);

	/* A time before 1970 is past, and is not taken for "none" (-1). */
	put_expiring(store, "t", ZARIS_EXPIRY_SET, -1, ZARIS_IF_PRESENT);
	CHECK_STATUS(get(store, bytes("t"))->status, ZARIS_NOT_FOUND);
	put_expiring(store, "other", ZARIS_EXPIRY_CLEAR, 0, ZARIS_IF_ABSENT);
	CHECK_INT(entries("expiry", true), 0);
	CHECK_INT(entries("expiry", false), 1);
	delete_if(store, bytes("other"), ZARIS_IF_PRESENT, 0);
	test_wall_ms = start;
	zaris_batch_reset(store->batch);
}

/* Later writes remove what has expired: a bounded number each, in the end all of it, and nothing else. */
static void
test_expiry_sweep(Store *store)
{
	int64_t		start = test_wall_ms;
	char		keys[300][16];
	long		left;
	int			rounds = 0;

	for (int i = 0; i < 300; i++)
	{
		ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, (ZarisBytes) {keys[i], 0});

		operation->key.len = (size_t) snprintf(keys[i], sizeof(keys[i]), "s%03d", i);
		operation->value = bytes("v");
		operation->expiry = i % 3 == 0 ? ZARIS_EXPIRY_KEEP : ZARIS_EXPIRY_SET;
		operation->expires_at_ms = start + (i % 3 == 1 ? 10 : 1000000);
		zaris_batch_submit(store->batch, operation);
	}
	wait_store(store);
	zaris_batch_reset(store->batch);
	CHECK_INT(entries("expiry", false), 300);
	CHECK_INT(entries("expiry", true), 200);

	test_wall_ms = start + 10;
	left = 300;
	while (left > 200 && rounds < 10)
	{
		long		before = left;

		CHECK_STATUS(put_if(store, bytes("s000"), bytes("w"), ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
		left = entries("expiry", false);
		CHECK(left < before && before - left <= 64);
		rounds++;
	}
	CHECK_INT(left, 200);
	CHECK_INT(entries("expiry", true), 100);
	CHECK_INT(rounds, 2);
	test_wall_ms = start;
	zaris_batch_reset(store->batch);
}

/* An entry that speaks of another record than the one that is there removes nothing. */
static void
test_expiry_leftover(Store *store)
{
	ZarisLmdbEnvironment *environment = environment_of("expiry");
	ZarisLmdbProblem problem;
	char		entry[16] = {0};
	MDB_val		key = {sizeof(entry), entry};
	MDB_val		value = {5, "kleft"};
	MDB_txn    *txn;
	bool		in_doubt;
	long		before = entries("expiry", true);

	CHECK_STATUS(put(store, bytes("left"), bytes("v"))->status, ZARIS_OK);
	CHECK(zaris_lmdb_begin(environment, true, &txn, &problem));
	CHECK_INT(mdb_put(txn, environment->expiries, &key, &value, 0), 0);
	CHECK_INT(zaris_lmdb_commit(environment, txn, &in_doubt), 0);
	zaris_lmdb_release(environment);
	CHECK_INT(entries("expiry", true), before + 1);
	CHECK_STATUS(put(store, bytes("other"), bytes("v"))->status, ZARIS_OK);
	CHECK_INT(entries("expiry", true), before);
	CHECK_STATUS(get(store, bytes("left"))->status, ZARIS_OK);
}

/* groups */

static void
test_one_transaction(void)
{
	Store		store;
	char		keys[1000][16];
	long		before;
	ZarisOperation *operations[1000];

	must_open(&store, directory, "groups");
	put(&store, bytes("k0500"), bytes("there before"));
	before = transactions("groups");
	for (int i = 0; i < 1000; i++)
	{
		operations[i] = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes) {keys[i], 5});
		snprintf(keys[i], sizeof(keys[i]), "k%04d", i);
		operations[i]->value = bytes("v");
		zaris_batch_submit(store.batch, operations[i]);
	}
	wait_store(&store);
	CHECK_INT(transactions("groups"), before + 1);

	/* The Conflict of one undid no other. */
	for (int i = 0; i < 1000; i++)
		CHECK_STATUS(operations[i]->status, i == 500 ? ZARIS_CONFLICT : ZARIS_OK);
	CHECK_INT(entries("groups", false), 1000);

	/* Nothing but answers: no transaction is committed. */
	before = transactions("groups");
	CHECK_STATUS(put(&store, bytes("k0001"), bytes("x"))->status, ZARIS_CONFLICT);
	CHECK_INT(transactions("groups"), before);
	close_store(&store);
}

/* Operations of one flush happen in the order in which they were submitted. */
static void
test_order_in_group(void)
{
	Store		store;
	ZarisOperation *operations[6];
	const char *values[] = {NULL, "1", NULL, "2", NULL, NULL};

	must_open(&store, directory, "mixed");
	for (int i = 0; i < 6; i++)
	{
		operations[i] = new_operation(&store, values[i] != NULL ? ZARIS_OP_PUT : ZARIS_OP_GET, bytes("m"));
		operations[i]->precondition = i == 1 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT;
		operations[i]->want = ZARIS_WANT_VALUE;
		if (values[i] != NULL)
			operations[i]->value = bytes(values[i]);
		if (i == 4)
			operations[i]->kind = ZARIS_OP_DELETE;
		zaris_batch_submit(store.batch, operations[i]);
	}
	wait_store(&store);
	CHECK_STATUS(operations[0]->status, ZARIS_NOT_FOUND);
	CHECK_STATUS(operations[1]->status, ZARIS_OK);
	CHECK(same_bytes(operations[2]->result, bytes("1")));
	CHECK_STATUS(operations[3]->status, ZARIS_OK);
	CHECK(operations[3]->version > operations[1]->version);
	CHECK_STATUS(operations[4]->status, ZARIS_OK);
	CHECK_STATUS(operations[5]->status, ZARIS_NOT_FOUND);
	close_store(&store);
}

/* Much at once is split; between the parts the loop turns, so that an interrupt can be seen. */
static void
test_split(void)
{
	Store		store;
	char	   *large = calloc(1, 1024 * 1024);
	char		keys[20][16];
	long		before;

	must_open(&store, directory, "split");
	before = transactions("split");
	for (int i = 0; i < 20; i++)
	{
		ZarisOperation *operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes) {keys[i], 3});

		snprintf(keys[i], sizeof(keys[i]), "k%02d", i);
		operation->value = (ZarisBytes) {large, 1024 * 1024};
		zaris_batch_submit(store.batch, operation);
	}
	wait_store(&store);
	CHECK_INT(transactions("split"), before + 3);
	CHECK_INT(entries("split", false), 20);
	close_store(&store);
	free(large);
}

/* What was not flushed when its batch went away never happens, and nobody is told of it. */
static void
test_detach(void)
{
	Store		store;
	ZarisBatch *other;

	must_open(&store, directory, "detach");
	put(&store, bytes("here"), bytes("v"));
	other = zaris_batch_create(store.client);
	for (int i = 0; i < 10; i++)
	{
		ZarisOperation *operation = zaris_batch_operation(i % 2 == 0 ? other : store.batch);

		operation->kind = ZARIS_OP_PUT;
		operation->key = (ZarisBytes) {"0123456789" + i, 1};
		operation->value = bytes("v");
		zaris_batch_submit(i % 2 == 0 ? other : store.batch, operation);
	}
	zaris_batch_abandon(other);
	wait_store(&store);
	CHECK_INT(entries("detach", false), 6);
	CHECK_STATUS(get(&store, bytes("0"))->status, ZARIS_NOT_FOUND);
	CHECK_STATUS(get(&store, bytes("1"))->status, ZARIS_OK);
	close_store(&store);
}

/* growth */

static void
test_growth(void)
{
	const size_t huge = 100 * 1024 * 1024;
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	char	   *value = malloc(huge);
	char		keys[2000][16];
	Store		store;

	zaris_lmdb_tuning.map_size = 1024 * 1024;
	must_open(&store, directory, "growth");
	for (int round = 0; round < 4; round++)
	{
		for (int i = 0; i < 500; i++)
		{
			int			n = round * 500 + i;
			ZarisOperation *operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes) {keys[n], 6});

			snprintf(keys[n], sizeof(keys[n]), "k%05d", n);
			memset(value + n * 1000, 'a' + n % 26, 1000);
			operation->value = (ZarisBytes) {value + n * 1000, 1000};
			zaris_batch_submit(store.batch, operation);
		}
		wait_store(&store);
		zaris_batch_reset(store.batch);
	}
	CHECK_INT(entries("growth", false), 2000);
	for (int n = 0; n < 2000; n += 97)
		check_value(&store, (ZarisBytes) {keys[n], 6}, (ZarisBytes) {value + n * 1000, 1000}, __LINE__);

	for (size_t i = 0; i < huge; i += 1000)
		value[i] = (char) (i / 1000);
	CHECK_STATUS(put(&store, bytes("huge"), (ZarisBytes) {value, huge})->status, ZARIS_OK);
	check_value(&store, bytes("huge"), (ZarisBytes) {value, huge}, __LINE__);
	zaris_batch_reset(store.batch);

	/* It opens again with a map that fits. */
	close_store(&store);
	must_open(&store, directory, "growth");
	check_value(&store, bytes("huge"), (ZarisBytes) {value, huge}, __LINE__);
	CHECK_STATUS(delete_if(&store, bytes("huge"), ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
	CHECK_STATUS(put(&store, bytes("more"), bytes("v"))->status, ZARIS_OK);
	close_store(&store);
	zaris_lmdb_tuning = usual;
	free(value);
}

/* damage */

static void
test_damaged_records(void)
{
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .want = ZARIS_WANT_VALUE};
	ZarisLmdbRecord record = {ZARIS_RECORD_STRING, 5, ZARIS_NO_EXPIRY, {0}, {"value", 5}};
	char		stored[ZARIS_LMDB_HEADER + 5];
	Store		store;
	ZarisOperation *operation;

	must_open(&store, directory, "damaged");
	CHECK_STATUS(put(&store, bytes("good"), bytes("v"))->status, ZARIS_OK);
	plant("damaged", "bad\n\"", bytes("garbage"));
	operation = get(&store, bytes("bad\n\""));
	CHECK_STATUS(operation->status, ZARIS_PROTOCOL_ERROR);
	CHECK(strcmp(operation->error_text, "The record of key \"bad\\x0a\\x22\" is damaged.") == 0);
	CHECK_STATUS(put_if(&store, bytes("bad\n\""), bytes("v"), ZARIS_IF_PRESENT, 0)->status, ZARIS_PROTOCOL_ERROR);
	CHECK_STATUS(delete_if(&store, bytes("bad\n\""), ZARIS_IF_PRESENT, 0)->status, ZARIS_PROTOCOL_ERROR);
	CHECK_STATUS(page(&store, &request)->status, ZARIS_PROTOCOL_ERROR);
	CHECK_STATUS(get(&store, bytes("good"))->status, ZARIS_OK);

	/* A value that does not fit its checksum is not given out; that it is there can be told. */
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, "valve", 5);
	plant("damaged", "bad\n\"", (ZarisBytes) {stored, sizeof(stored)});
	CHECK_STATUS(get(&store, bytes("bad\n\""))->status, ZARIS_PROTOCOL_ERROR);
	CHECK_STATUS(run(&store, new_operation(&store, ZARIS_OP_GET, bytes("bad\n\"")))->status, ZARIS_OK);
	CHECK_STATUS(page(&store, &request)->status, ZARIS_PROTOCOL_ERROR);
	request.want = 0;
	CHECK_STATUS(page(&store, &request)->status, ZARIS_OK);

	/* An empty value, and one that names a hash but is none */
	plant("damaged", "bad\n\"", (ZarisBytes) {"", 0});
	CHECK_STATUS(get(&store, bytes("bad\n\""))->status, ZARIS_PROTOCOL_ERROR);
	record.kind = ZARIS_RECORD_HASH;
	record.body = bytes("xxxxx");
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, "xxxxx", 5);
	plant("damaged", "bad\n\"", (ZarisBytes) {stored, sizeof(stored)});
	CHECK_STATUS(get_hash(&store, "bad\n\"", NULL, 0)->status, ZARIS_PROTOCOL_ERROR);
	CHECK_STATUS(put_hash(&store, "bad\n\"", NULL, 0, ZARIS_IF_PRESENT)->status, ZARIS_PROTOCOL_ERROR);

	/* A hash of no field whose checksum is another's: a change of it must not make it look good again. */
	record.body = (ZarisBytes) {"\0\0\0\0", 4};
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, record.body.data, 4);
	plant("damaged", "bad\n\"", (ZarisBytes) {stored, ZARIS_LMDB_HEADER + 4});
	CHECK_STATUS(get_hash(&store, "bad\n\"", NULL, 0)->status, ZARIS_OK);
	stored[4] ^= 1;
	plant("damaged", "bad\n\"", (ZarisBytes) {stored, ZARIS_LMDB_HEADER + 4});
	CHECK_STATUS(put_hash(&store, "bad\n\"", NULL, 0, ZARIS_IF_PRESENT)->status, ZARIS_PROTOCOL_ERROR);
	close_store(&store);
}

/* the rest of the contract */

static void
test_contract(Store *store)
{
	ZarisOperation *operation;
	Store		refused;
	unsigned	capabilities = zaris_client_capabilities(store->client);
	char		text[ZARIS_ADDRESS_TEXT];

	CHECK((capabilities & ZARIS_CAN_PARTITION) == 0);
	CHECK((capabilities & (ZARIS_CAN_ORDER | ZARIS_CAN_RECORDS | ZARIS_CAN_COUNT | ZARIS_CAN_LOCK)) ==
		  (ZARIS_CAN_ORDER | ZARIS_CAN_RECORDS | ZARIS_CAN_COUNT | ZARIS_CAN_LOCK));
	get(store, bytes("x"));
	CHECK_INT(zaris_client_map(store->client)->now.n_nodes, 1);
	CHECK_INT(zaris_client_map(store->client)->now.n_slots, 1);
	CHECK(strcmp(zaris_address_text(&zaris_client_map(store->client)->now.nodes[0].address, text), "inproc/main") == 0);
	CHECK_INT(zaris_client_connections(store->client), 1);
	CHECK_INT(zaris_client_slot(store->client, "abc", 3), 0);

	operation = new_operation(store, ZARIS_OP_NODE_STATE, bytes(""));
	operation->node = 0;
	CHECK_STATUS(run(store, operation)->status, ZARIS_INVALID_REQUEST);
	operation = new_operation(store, ZARIS_OP_LIST_SLOTS, bytes(""));
	operation->node = 0;
	CHECK_STATUS(run(store, operation)->status, ZARIS_INVALID_REQUEST);

	CHECK(!open_store(&refused, directory, "../main"));
	CHECK(!open_store(&refused, directory, ""));
	CHECK(!open_store(&refused, directory, "a.b"));
	CHECK(!open_store(&refused, NULL, "main"));
	CHECK(!open_store(&refused, "relative", "main"));
	zaris_batch_reset(store->batch);
}

/* Two clients in one process share the environment, and see each other's writes at once. */
static void
test_two_clients(void)
{
	ZarisLmdbEnvironment *environment;
	Store		one,
				two;

	must_open(&one, directory, "shared");
	must_open(&two, path_of(directory, "."), "shared");
	CHECK_STATUS(put(&one, bytes("k"), bytes("v"))->status, ZARIS_OK);
	CHECK_STATUS(put(&two, bytes("k"), bytes("w"))->status, ZARIS_CONFLICT);
	check_value(&two, bytes("k"), bytes("v"), __LINE__);
	environment = environment_of("shared");
	CHECK_INT(environment->uses, 3);
	zaris_lmdb_release(environment);
	close_store(&one);
	CHECK_STATUS(put_if(&two, bytes("k"), bytes("w"), ZARIS_IF_PRESENT, 0)->status, ZARIS_OK);
	close_store(&two);
	must_open(&one, directory, "shared");
	check_value(&one, bytes("k"), bytes("w"), __LINE__);
	close_store(&one);
}

int
main(void)
{
	char		deep[512];
	Store		store;
	struct stat status;

	/* The directory is made with its parents, and is nobody else's. */
	snprintf(deep, sizeof(deep), "%s/zaris/4711", make_test_directory());
	directory = deep;
	must_open(&store, directory, "main");
	CHECK(stat(path_of(directory, "main"), &status) == 0 && (status.st_mode & 0777) == 0700);
	CHECK(stat(directory, &status) == 0 && (status.st_mode & 0777) == 0700);
	CHECK(stat(path_of(directory, "main/data.mdb"), &status) == 0 && (status.st_mode & 0777) == 0600);
	CHECK(stat(path_of(directory, "main/lock.mdb"), &status) == 0 && (status.st_mode & 0777) == 0600);
	test_strings(&store);
	test_want(&store);
	test_key_lengths(&store);
	test_sizes(&store);
	test_hashes(&store);
	test_preconditions(&store);
	test_contract(&store);
	close_store(&store);
	test_versions();
	must_open(&store, directory, "expiry");
	test_expiry_actions(&store);
	test_expiry_times(&store);
	test_expiry_sweep(&store);
	test_expiry_leftover(&store);
	close_store(&store);
	test_one_transaction();
	test_order_in_group();
	test_split();
	test_detach();
	test_growth();
	test_damaged_records();
	test_two_clients();
	remove_tree(test_directory);
	return finish_test("test_lmdb_store");
}
