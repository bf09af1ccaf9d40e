/*
 * test_lmdb_store.c
 *	  The embedded store through the client: contents, preconditions, versions, expiry, groups, growth, damage.
 */
#include "lmdb_support.h"

static const char *directory;

/* The one that is open for several tests; those that need another one have it themselves. */
static Store  common;
static Store *store = &common;

/* The store's environment, for looking behind the scenes: the same one, since a file is open once in a process. */
static ZarisLmdbEnvironment *
environment_of(const char *name)
{
	ZarisLmdbProblem	  problem;
	ZarisLmdbEnvironment *environment = zaris_lmdb_acquire(directory, name, &problem);

	CHECK(environment != NULL);
	return environment;
}

static long
entries(const char *name, bool expiries)
{
	ZarisLmdbEnvironment *environment = environment_of(name);
	ZarisLmdbProblem	  problem;
	MDB_txn				 *txn;
	MDB_stat			  stat;

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
	MDB_envinfo			  info;

	mdb_env_info(environment->env, &info);
	zaris_lmdb_release(environment);
	return (long) info.me_last_txnid;
}

/* Put raw bytes where a record belongs. */
static void
plant(const char *name, const char *key, ZarisBytes stored)
{
	ZarisLmdbEnvironment *environment = environment_of(name);
	ZarisLmdbProblem	  problem;
	char				  prefixed[64];
	MDB_txn				 *txn;
	MDB_val				  mdb_key = {(size_t) snprintf(prefixed, sizeof(prefixed), "k%s", key), prefixed};
	MDB_val				  value = {stored.len, (void *) stored.data};
	bool				  in_doubt;

	CHECK(zaris_lmdb_begin(environment, true, &txn, &problem));
	CHECK_INT(0, mdb_put(txn, environment->records, &mdb_key, &value, 0));
	CHECK_INT(0, zaris_lmdb_commit(environment, txn, &in_doubt));
	zaris_lmdb_release(environment);
}

/* contents */

static void
check_value(Store *in, ZarisBytes key, ZarisBytes expected, int line)
{
	ZarisOperation *operation = get(in, key);

	if ((operation->status != ZARIS_OK || !same_bytes(operation->result, expected)) && test_complain(__FILE__, line))
		printf("%s \"%.*s\"\n", zaris_status_name(operation->status),
			   (int) (operation->result.len < 80 ? operation->result.len : 80),
			   operation->result.data == NULL ? "" : operation->result.data);
}

TEST(strings)
{
	static const ZarisBytes keys[] = {{"", 0}, {"a", 1}, {"a\0", 2}, {"\0", 1}, {"\xff", 1}, {"a\0b", 3}};
	static const ZarisBytes values[] = {{"", 0}, {"\0", 1}, {"x", 1}, {"line\nline", 9}};
	const int				n = sizeof(keys) / sizeof(keys[0]);

	for (int i = 0; i < n; i++)
		CHECK_STATUS(ZARIS_NOT_FOUND, get(store, keys[i])->status);
	for (int i = 0; i < n; i++)
		CHECK_STATUS(ZARIS_OK, put(store, keys[i], values[i % 4])->status);
	for (int i = 0; i < n; i++)
		check_value(store, keys[i], values[i % 4], __LINE__);
	CHECK(get(store, keys[0])->result.data != NULL); /* empty is not nil */
	for (int i = 0; i < n; i++)
		CHECK_STATUS(ZARIS_OK, delete_if(store, keys[i], ZARIS_IF_PRESENT, 0)->status);
	for (int i = 0; i < n; i++)
		CHECK_STATUS(ZARIS_NOT_FOUND, get(store, keys[i])->status);
	zaris_batch_reset(store->batch);
}

TEST(what_is_wanted)
{
	ZarisOperation *operation;

	put(store, bytes("w"), bytes("value"));
	operation = new_operation(store, ZARIS_OP_GET, bytes("w"));
	CHECK_STATUS(ZARIS_OK, run(store, operation)->status);
	CHECK(operation->result.data == NULL);
	operation = new_operation(store, ZARIS_OP_GET, bytes("w"));
	operation->record = ZARIS_RECORD_HASH;
	CHECK_STATUS(ZARIS_WRONG_TYPE, run(store, operation)->status);
	delete_if(store, bytes("w"), ZARIS_IF_PRESENT, 0);
	zaris_batch_reset(store->batch);
}

TEST(lengths_of_keys)
{
	char			key[600];
	ZarisOperation *operation;

	memset(key, 'k', sizeof(key));
	CHECK_STATUS(ZARIS_OK, put(store, (ZarisBytes){key, 510}, bytes("v"))->status);
	check_value(store, (ZarisBytes){key, 510}, bytes("v"), __LINE__);
	operation = put(store, (ZarisBytes){key, 511}, bytes("v"));
	CHECK_STATUS(ZARIS_TOO_LARGE, operation->status);
	CHECK(strstr(operation->error_text, "510 bytes") != NULL);
	CHECK_STATUS(ZARIS_NOT_FOUND, get(store, (ZarisBytes){key, 511})->status);
	CHECK_STATUS(ZARIS_NOT_FOUND, get(store, (ZarisBytes){key, 600})->status);
	CHECK_STATUS(ZARIS_OK, delete_if(store, (ZarisBytes){key, 510}, ZARIS_IF_PRESENT, 0)->status);
	zaris_batch_reset(store->batch);
}

TEST(sizes_of_values)
{
	static const size_t sizes[] = {1, 1900, 2000, 2048, 4000, 4096, 4097, 65536, 1048576, 9000000};
	char			   *large = malloc(9000000);

	for (size_t i = 0; i < 9000000; i++)
		large[i] = (char) (i * 31 + (i >> 12));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		ZarisPrecondition precondition = i == 0 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT;

		CHECK_STATUS(ZARIS_OK, put_if(store, bytes("size"), (ZarisBytes){large, sizes[i]}, precondition, 0)->status);
		check_value(store, bytes("size"), (ZarisBytes){large, sizes[i]}, __LINE__);
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

TEST(hashes)
{
	ZarisField first[] = {{bytes("name"), bytes("Ada")}, {bytes("email"), bytes("")}, {bytes("none"), {NULL, 0}}};
	ZarisField change[] = {{bytes("name"), {NULL, 0}}, {bytes("age"), bytes("36")}};
	ZarisField wanted[] = {
		{bytes("none"), bytes("x")},
		{bytes("email"), {NULL, 0}},
		{bytes("age"), {NULL, 0}},
		{bytes("name"), {NULL, 0}},
	};
	ZarisField		last[] = {{bytes("age"), {NULL, 0}}, {bytes("email"), {NULL, 0}}};
	ZarisOperation *operation;

	CHECK_STATUS(ZARIS_OK, put_hash(store, "h", first, 3, ZARIS_IF_ABSENT)->status);
	operation = get_hash(store, "h", NULL, 0);
	CHECK_STATUS(ZARIS_OK, operation->status);
	CHECK_INT(2, operation->n_all_fields);
	CHECK(same_bytes(operation->all_fields[0].name, bytes("email")));
	CHECK(same_bytes(operation->all_fields[0].value, bytes("")));
	CHECK(same_bytes(operation->all_fields[1].value, bytes("Ada")));

	/* Only what changes is named; the rest stays. */
	CHECK_STATUS(ZARIS_OK, put_hash(store, "h", change, 2, ZARIS_IF_PRESENT)->status);
	CHECK_STATUS(ZARIS_OK, get_hash(store, "h", wanted, 4)->status);
	CHECK(wanted[0].value.data == NULL);
	CHECK(same_bytes(wanted[1].value, bytes("")));
	CHECK(same_bytes(wanted[2].value, bytes("36")));
	CHECK(wanted[3].value.data == NULL);

	CHECK_STATUS(ZARIS_WRONG_TYPE, get(store, bytes("h"))->status);
	CHECK_STATUS(ZARIS_WRONG_TYPE, put_if(store, bytes("h"), bytes("s"), ZARIS_IF_PRESENT, 0)->status);

	/* A hash is its fields: the last ones are not taken, and none is made without. */
	operation = put_hash(store, "h", last, 2, ZARIS_IF_PRESENT);
	CHECK_STATUS(ZARIS_INVALID_REQUEST, operation->status);
	CHECK_TEXT("a hash without fields cannot exist", operation->error_text);
	CHECK_INT(2, get_hash(store, "h", NULL, 0)->n_all_fields);
	CHECK_STATUS(ZARIS_INVALID_REQUEST, put_hash(store, "g", last, 2, ZARIS_IF_ABSENT)->status);
	CHECK_STATUS(ZARIS_NOT_FOUND, get_hash(store, "g", NULL, 0)->status);
	operation = new_operation(store, ZARIS_OP_DELETE, bytes("h"));
	operation->record = ZARIS_RECORD_HASH;
	operation->precondition = ZARIS_IF_PRESENT;
	CHECK_STATUS(ZARIS_OK, run(store, operation)->status);
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
	ZarisField		fields[] = {{bytes("f"), bytes("old")}};
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
	CHECK_STATUS(ZARIS_OK, run(store, operation)->status);
	return operation->version;
}

TEST(preconditions_table)
{
	for (int i = 0; i < N_BEFORE * N_DEMANDS * 2; i++)
	{
		Before			before = (Before) (i / 2 / N_DEMANDS);
		Demand			demand = (Demand) (i / 2 % N_DEMANDS);
		bool			is_delete = i % 2 == 1;
		int64_t			version = prepare(store, before);
		ZarisStatus		expected = answers[before][demand];
		ZarisOperation *operation = new_operation(store, is_delete ? ZARIS_OP_DELETE : ZARIS_OP_PUT, bytes("p"));
		ZarisOperation *after;

		/* What is absent cannot be deleted, whatever is there. */
		if (is_delete && demand == IF_ABSENT)
			expected = ZARIS_INVALID_REQUEST;
		operation->value = bytes("new");
		operation->precondition = preconditions[demand];
		operation->match_version = demand == IF_MATCH_WRONG ? version + 1 : version;
		CHECK_STATUS(expected, run(store, operation)->status);
		CHECK(operation->has_version == (expected == ZARIS_OK && !is_delete));

		after = get(store, bytes("p"));
		if (before == OTHER_KIND)
			CHECK_STATUS(ZARIS_WRONG_TYPE, after->status);
		else if (expected == ZARIS_OK && !is_delete)
		{
			CHECK_STATUS(ZARIS_OK, after->status);
			CHECK(same_bytes(after->result, bytes("new")));
			CHECK_INT(operation->version, after->version);
			CHECK(after->version > version);
		}
		else if (expected == ZARIS_OK || before != PRESENT)
			CHECK_STATUS(ZARIS_NOT_FOUND, after->status);
		else
		{
			CHECK(same_bytes(after->result, bytes("old")));
			CHECK_INT(version, after->version);
		}
		zaris_batch_reset(store->batch);
	}
	prepare(store, ABSENT);
}

/* versions */

TEST(versions)
{
	Store	store;
	int64_t last = 0;

	must_open(&store, directory, "versions");
	CHECK_INT(1, put(&store, bytes("first"), bytes("v"))->version);
	last = 1;
	for (int i = 0; i < 20; i++)
	{
		ZarisOperation *operation = put(&store, bytes("k"), bytes("v"));

		CHECK(operation->has_version);
		CHECK_INT(last + 1, operation->version);
		last = operation->version;
		operation = put_if(&store, bytes("k"), bytes("w"), ZARIS_IF_MATCH_VERSION, last);
		CHECK_INT(last + 1, operation->version);
		last = operation->version;

		/* A version that was seen before matches nothing any more, though the key is made again. */
		CHECK_STATUS(ZARIS_CONFLICT, put_if(&store, bytes("k"), bytes("x"), ZARIS_IF_MATCH_VERSION, last - 1)->status);
		CHECK_STATUS(ZARIS_OK, delete_if(&store, bytes("k"), ZARIS_IF_MATCH_VERSION, last)->status);
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

TEST(expiry_actions)
{
	int64_t soon = test_wall_ms + 1000;

	CHECK_STATUS(ZARIS_OK, put_expiring(store, "e", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_ABSENT)->status);
	CHECK_INT(ZARIS_NO_EXPIRY, get(store, bytes("e"))->expiry_ms);
	CHECK_INT(0, entries("expiry", true));
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon, ZARIS_IF_PRESENT);
	CHECK_INT(soon, get(store, bytes("e"))->expiry_ms);
	CHECK_INT(1, entries("expiry", true));
	put_expiring(store, "e", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_PRESENT);
	CHECK_INT(soon, get(store, bytes("e"))->expiry_ms);
	CHECK_INT(1, entries("expiry", true));
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon + 1, ZARIS_IF_PRESENT);
	CHECK_INT(soon + 1, get(store, bytes("e"))->expiry_ms);
	CHECK_INT(1, entries("expiry", true));
	put_expiring(store, "e", ZARIS_EXPIRY_CLEAR, 0, ZARIS_IF_PRESENT);
	CHECK_INT(ZARIS_NO_EXPIRY, get(store, bytes("e"))->expiry_ms);
	CHECK_INT(0, entries("expiry", true));
	put_expiring(store, "e", ZARIS_EXPIRY_SET, soon, ZARIS_IF_PRESENT);
	CHECK_STATUS(ZARIS_OK, delete_if(store, bytes("e"), ZARIS_IF_PRESENT, 0)->status);
	CHECK_INT(0, entries("expiry", true));
	CHECK_INT(0, entries("expiry", false));
	zaris_batch_reset(store->batch);
}

TEST(expiry_times)
{
	int64_t start = test_wall_ms;

	put_expiring(store, "t", ZARIS_EXPIRY_SET, start + 1000, ZARIS_IF_ABSENT);
	test_wall_ms = start + 999;
	CHECK_STATUS(ZARIS_OK, get(store, bytes("t"))->status);
	test_wall_ms = start + 1000;
	CHECK_STATUS(ZARIS_NOT_FOUND, get(store, bytes("t"))->status);

	/* A new record in the place of an expired one inherits nothing. */
	CHECK_STATUS(ZARIS_OK, put_expiring(store, "t", ZARIS_EXPIRY_KEEP, 0, ZARIS_IF_ABSENT)->status);
	CHECK_INT(ZARIS_NO_EXPIRY, get(store, bytes("t"))->expiry_ms);
	CHECK_INT(0, entries("expiry", true));

	/* A time before 1970 is past, and is not taken for "none" (-1). */
	put_expiring(store, "t", ZARIS_EXPIRY_SET, -1, ZARIS_IF_PRESENT);
	CHECK_STATUS(ZARIS_NOT_FOUND, get(store, bytes("t"))->status);
	put_expiring(store, "other", ZARIS_EXPIRY_CLEAR, 0, ZARIS_IF_ABSENT);
	CHECK_INT(0, entries("expiry", true));
	CHECK_INT(1, entries("expiry", false));
	delete_if(store, bytes("other"), ZARIS_IF_PRESENT, 0);
	test_wall_ms = start;
	zaris_batch_reset(store->batch);
}

/* Later writes remove what has expired: a bounded number each, in the end all of it, and nothing else. */
TEST(expired_records_are_removed)
{
	int64_t start = test_wall_ms;
	char	keys[300][16];
	long	left;
	int		rounds = 0;

	for (int i = 0; i < 300; i++)
	{
		ZarisOperation *operation = new_operation(store, ZARIS_OP_PUT, (ZarisBytes){keys[i], 0});

		operation->key.len = (size_t) snprintf(keys[i], sizeof(keys[i]), "s%03d", i);
		operation->value = bytes("v");
		operation->expiry = i % 3 == 0 ? ZARIS_EXPIRY_KEEP : ZARIS_EXPIRY_SET;
		operation->expires_at_ms = start + (i % 3 == 1 ? 10 : 1000000);
		zaris_batch_submit(store->batch, operation);
	}
	wait_store(store);
	zaris_batch_reset(store->batch);
	CHECK_INT(300, entries("expiry", false));
	CHECK_INT(200, entries("expiry", true));

	test_wall_ms = start + 10;
	left = 300;
	while (left > 200 && rounds < 10)
	{
		long before = left;

		CHECK_STATUS(ZARIS_OK, put_if(store, bytes("s000"), bytes("w"), ZARIS_IF_PRESENT, 0)->status);
		left = entries("expiry", false);
		CHECK(left < before && before - left <= 64);
		rounds++;
	}
	CHECK_INT(200, left);
	CHECK_INT(100, entries("expiry", true));
	CHECK_INT(2, rounds);
	test_wall_ms = start;
	zaris_batch_reset(store->batch);
}

/* An entry that speaks of another record than the one that is there removes nothing. */
TEST(leftovers_remove_nothing)
{
	ZarisLmdbEnvironment *environment = environment_of("expiry");
	ZarisLmdbProblem	  problem;
	char				  entry[16] = {0};
	MDB_val				  key = {sizeof(entry), entry};
	MDB_val				  value = {5, "kleft"};
	MDB_txn				 *txn;
	bool				  in_doubt;
	long				  before = entries("expiry", true);

	CHECK_STATUS(ZARIS_OK, put(store, bytes("left"), bytes("v"))->status);
	CHECK(zaris_lmdb_begin(environment, true, &txn, &problem));
	CHECK_INT(0, mdb_put(txn, environment->expiries, &key, &value, 0));
	CHECK_INT(0, zaris_lmdb_commit(environment, txn, &in_doubt));
	zaris_lmdb_release(environment);
	CHECK_INT(before + 1, entries("expiry", true));
	CHECK_STATUS(ZARIS_OK, put(store, bytes("other"), bytes("v"))->status);
	CHECK_INT(before, entries("expiry", true));
	CHECK_STATUS(ZARIS_OK, get(store, bytes("left"))->status);
}

/* groups */

TEST(one_transaction_a_group)
{
	Store			store;
	char			keys[1000][16];
	long			before;
	ZarisOperation *operations[1000];

	must_open(&store, directory, "groups");
	put(&store, bytes("k0500"), bytes("there before"));
	before = transactions("groups");
	for (int i = 0; i < 1000; i++)
	{
		operations[i] = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes){keys[i], 5});
		snprintf(keys[i], sizeof(keys[i]), "k%04d", i);
		operations[i]->value = bytes("v");
		zaris_batch_submit(store.batch, operations[i]);
	}
	wait_store(&store);
	CHECK_INT(before + 1, transactions("groups"));

	/* The Conflict of one undid no other. */
	for (int i = 0; i < 1000; i++)
		CHECK_STATUS(i == 500 ? ZARIS_CONFLICT : ZARIS_OK, operations[i]->status);
	CHECK_INT(1000, entries("groups", false));

	/* Nothing but answers: no transaction is committed. */
	before = transactions("groups");
	CHECK_STATUS(ZARIS_CONFLICT, put(&store, bytes("k0001"), bytes("x"))->status);
	CHECK_INT(before, transactions("groups"));
	close_store(&store);
}

/* Operations of one flush happen in the order in which they were submitted. */
TEST(order_within_a_group)
{
	Store			store;
	ZarisOperation *operations[6];
	const char	   *values[] = {NULL, "1", NULL, "2", NULL, NULL};

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
	CHECK_STATUS(ZARIS_NOT_FOUND, operations[0]->status);
	CHECK_STATUS(ZARIS_OK, operations[1]->status);
	CHECK(same_bytes(operations[2]->result, bytes("1")));
	CHECK_STATUS(ZARIS_OK, operations[3]->status);
	CHECK(operations[3]->version > operations[1]->version);
	CHECK_STATUS(ZARIS_OK, operations[4]->status);
	CHECK_STATUS(ZARIS_NOT_FOUND, operations[5]->status);
	close_store(&store);
}

/* Much at once is split; between the parts the loop turns, so that an interrupt can be seen. */
TEST(large_groups_are_split)
{
	Store store;
	char *large = calloc(1, 1024 * 1024);
	char  keys[20][16];
	long  before;

	must_open(&store, directory, "split");
	before = transactions("split");
	for (int i = 0; i < 20; i++)
	{
		ZarisOperation *operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes){keys[i], 3});

		snprintf(keys[i], sizeof(keys[i]), "k%02d", i);
		operation->value = (ZarisBytes){large, 1024 * 1024};
		zaris_batch_submit(store.batch, operation);
	}
	wait_store(&store);
	CHECK_INT(before + 3, transactions("split"));
	CHECK_INT(20, entries("split", false));
	close_store(&store);
	free(large);
}

/* What was not flushed when its batch went away never happens, and nobody is told of it. */
TEST(detached_operations)
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
		operation->key = (ZarisBytes){&"0123456789"[i], 1};
		operation->value = bytes("v");
		zaris_batch_submit(i % 2 == 0 ? other : store.batch, operation);
	}
	zaris_batch_abandon(other);
	wait_store(&store);
	CHECK_INT(6, entries("detach", false));
	CHECK_STATUS(ZARIS_NOT_FOUND, get(&store, bytes("0"))->status);
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("1"))->status);
	close_store(&store);
}

/* More than one turn's work, each write a transaction of its own */
static void
submit_many(Store *in, char (*keys)[16], ZarisOperation **operations, int first, int n)
{
	for (int i = first; i < first + n; i++)
	{
		operations[i] = new_operation(in, ZARIS_OP_PUT, (ZarisBytes){keys[i], 5});
		snprintf(keys[i], sizeof(keys[i]), "k%04u", (unsigned) i % 10000);
		operations[i]->value = bytes("v");
		zaris_batch_submit(in->batch, operations[i]);
	}
}

/* What is submitted while a queue is left over is done behind it; a queue need not become empty to be used again. */
TEST(submitting_behind_a_queue)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	Store			other;
	char			keys[600][16];
	ZarisOperation *operations[600];
	bool			was_left = false;

	zaris_lmdb_tuning.group_bytes = 1;
	must_open(&other, directory, "queue");
	get(&other, bytes("none"));
	for (int round = 0; round < 3; round++)
	{
		submit_many(&other, keys, operations, round * 200, 200);
		while (zaris_batch_pending(other.batch) > (round < 2 ? 50 : 0))
		{
			zaris_client_turn(other.client);
			was_left = was_left || zaris_batch_pending(other.batch) > 0;
		}
	}
	CHECK(was_left);
	for (int i = 0; i < 600; i++)
		CHECK_STATUS(ZARIS_OK, operations[i]->status);
	for (int i = 1; i < 600; i++)
		CHECK_INT(operations[i - 1]->version + 1, operations[i]->version);
	close_store(&other);
	zaris_lmdb_tuning = usual;
}

/* When the deadline passes, what was answered is there, and what was not begun never is: nothing is in doubt. */
TEST(a_deadline_within_a_queue)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	Store			other;
	char			keys[2000][16];
	ZarisOperation *operations[2000];
	int				done = 0;

	zaris_lmdb_tuning.group_bytes = 1;
	must_open(&other, directory, "deadline");
	get(&other, bytes("none"));
	submit_many(&other, keys, operations, 0, 2000);
	zaris_batch_set_deadline(other.batch, zaris_loop_now_us() + 1000);
	wait_store(&other);
	while (done < 2000 && operations[done]->status == ZARIS_OK)
		done++;
	CHECK(done > 0 && done < 2000);
	for (int i = done; i < 2000; i++)
		CHECK_STATUS(ZARIS_DEADLINE_EXCEEDED, operations[i]->status);
	CHECK_INT(done, entries("deadline", false));
	close_store(&other);
	zaris_lmdb_tuning = usual;
}

/* growth */

TEST(growth)
{
	const size_t	huge = 100 * 1024 * 1024;
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	char		   *value = malloc(huge);
	char			keys[2000][16];
	Store			store;

	zaris_lmdb_tuning.map_size = 1024 * 1024;
	must_open(&store, directory, "growth");
	for (int round = 0; round < 4; round++)
	{
		for (int i = 0; i < 500; i++)
		{
			int				n = round * 500 + i;
			ZarisOperation *operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes){keys[n], 6});

			snprintf(keys[n], sizeof(keys[n]), "k%05d", n);
			memset(value + n * 1000, 'a' + n % 26, 1000);
			operation->value = (ZarisBytes){value + n * 1000, 1000};
			zaris_batch_submit(store.batch, operation);
		}
		wait_store(&store);
		zaris_batch_reset(store.batch);
	}
	CHECK_INT(2000, entries("growth", false));
	for (int n = 0; n < 2000; n += 97)
		check_value(&store, (ZarisBytes){keys[n], 6}, (ZarisBytes){value + n * 1000, 1000}, __LINE__);

	for (size_t i = 0; i < huge; i += 1000)
		value[i] = (char) (i / 1000);
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("huge"), (ZarisBytes){value, huge})->status);
	check_value(&store, bytes("huge"), (ZarisBytes){value, huge}, __LINE__);
	zaris_batch_reset(store.batch);

	/* It opens again with a map that fits. */
	close_store(&store);
	must_open(&store, directory, "growth");
	check_value(&store, bytes("huge"), (ZarisBytes){value, huge}, __LINE__);
	CHECK_STATUS(ZARIS_OK, delete_if(&store, bytes("huge"), ZARIS_IF_PRESENT, 0)->status);
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("more"), bytes("v"))->status);
	close_store(&store);
	zaris_lmdb_tuning = usual;
	free(value);
}

/* damage */

TEST(damaged_records)
{
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .want = ZARIS_WANT_VALUE};
	ZarisLmdbRecord	 record = {ZARIS_RECORD_STRING, 5, ZARIS_NO_EXPIRY, {0}, {"value", 5}};
	char			 stored[ZARIS_LMDB_HEADER + 5];
	Store			 store;
	ZarisOperation	*operation;

	must_open(&store, directory, "damaged");
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("good"), bytes("v"))->status);
	plant("damaged", "bad\n\"", bytes("garbage"));
	operation = get(&store, bytes("bad\n\""));
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, operation->status);
	CHECK(strcmp(operation->error_text, "the record of key \"bad\\x0a\\x22\" is damaged") == 0);
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, put_if(&store, bytes("bad\n\""), bytes("v"), ZARIS_IF_PRESENT, 0)->status);
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, delete_if(&store, bytes("bad\n\""), ZARIS_IF_PRESENT, 0)->status);
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, page(&store, &request)->status);
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("good"))->status);

	/* A value that does not fit its checksum is not given out; that it is there can be told. */
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, "valve", 5);
	plant("damaged", "bad\n\"", (ZarisBytes){stored, sizeof(stored)});
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, get(&store, bytes("bad\n\""))->status);
	CHECK_STATUS(ZARIS_OK, run(&store, new_operation(&store, ZARIS_OP_GET, bytes("bad\n\"")))->status);
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, page(&store, &request)->status);
	request.want = 0;
	CHECK_STATUS(ZARIS_OK, page(&store, &request)->status);

	/* An empty value, and one that names a hash but is none */
	plant("damaged", "bad\n\"", (ZarisBytes){"", 0});
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, get(&store, bytes("bad\n\""))->status);
	record.kind = ZARIS_RECORD_HASH;
	record.body = bytes("xxxxx");
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, "xxxxx", 5);
	plant("damaged", "bad\n\"", (ZarisBytes){stored, sizeof(stored)});
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, get_hash(&store, "bad\n\"", NULL, 0)->status);
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, put_hash(&store, "bad\n\"", NULL, 0, ZARIS_IF_PRESENT)->status);

	/* A hash of no field whose checksum is another's: a change of it must not make it look good again. */
	record.body = (ZarisBytes){"\0\0\0\0", 4};
	zaris_lmdb_record_header(&record, stored);
	memcpy(stored + ZARIS_LMDB_HEADER, record.body.data, 4);
	plant("damaged", "bad\n\"", (ZarisBytes){stored, ZARIS_LMDB_HEADER + 4});
	CHECK_STATUS(ZARIS_OK, get_hash(&store, "bad\n\"", NULL, 0)->status);
	stored[4] ^= 1;
	plant("damaged", "bad\n\"", (ZarisBytes){stored, ZARIS_LMDB_HEADER + 4});
	CHECK_STATUS(ZARIS_PROTOCOL_ERROR, put_hash(&store, "bad\n\"", NULL, 0, ZARIS_IF_PRESENT)->status);
	close_store(&store);
}

/* the rest of the contract */

TEST(the_rest_of_the_contract)
{
	ZarisOperation *operation;
	Store			refused;
	unsigned		capabilities = zaris_client_capabilities(store->client);
	char			text[ZARIS_ADDRESS_TEXT];

	CHECK((capabilities & ZARIS_CAN_PARTITION) == 0);
	CHECK((capabilities & (ZARIS_CAN_ORDER | ZARIS_CAN_RECORDS | ZARIS_CAN_COUNT | ZARIS_CAN_LOCK)) ==
		  (ZARIS_CAN_ORDER | ZARIS_CAN_RECORDS | ZARIS_CAN_COUNT | ZARIS_CAN_LOCK));
	get(store, bytes("x"));
	CHECK_INT(1, zaris_client_map(store->client)->now.n_nodes);
	CHECK_INT(1, zaris_client_map(store->client)->now.n_slots);
	CHECK(strcmp(zaris_address_text(&zaris_client_map(store->client)->now.nodes[0].address, text), "inproc/main") == 0);
	CHECK_INT(1, zaris_client_connections(store->client));
	CHECK_INT(0, zaris_client_slot(store->client, "abc", 3));

	operation = new_operation(store, ZARIS_OP_NODE_STATE, bytes(""));
	operation->node = 0;
	CHECK_STATUS(ZARIS_INVALID_REQUEST, run(store, operation)->status);
	operation = new_operation(store, ZARIS_OP_LIST_SLOTS, bytes(""));
	operation->node = 0;
	CHECK_STATUS(ZARIS_INVALID_REQUEST, run(store, operation)->status);

	CHECK(!open_store(&refused, directory, "../main"));
	CHECK(!open_store(&refused, directory, ""));
	CHECK(!open_store(&refused, directory, "a.b"));
	CHECK(!open_store(&refused, NULL, "main"));
	CHECK(!open_store(&refused, "relative", "main"));
	zaris_batch_reset(store->batch);
}

/* Two clients in one process share the environment, and see each other's writes at once. */
TEST(two_clients)
{
	ZarisLmdbEnvironment *environment;
	Store				  one,
		two;

	must_open(&one, directory, "shared");
	must_open(&two, path_of(directory, "."), "shared");
	CHECK_STATUS(ZARIS_OK, put(&one, bytes("k"), bytes("v"))->status);
	CHECK_STATUS(ZARIS_CONFLICT, put(&two, bytes("k"), bytes("w"))->status);
	check_value(&two, bytes("k"), bytes("v"), __LINE__);
	environment = environment_of("shared");
	CHECK_INT(3, environment->uses);
	zaris_lmdb_release(environment);
	close_store(&one);
	CHECK_STATUS(ZARIS_OK, put_if(&two, bytes("k"), bytes("w"), ZARIS_IF_PRESENT, 0)->status);
	close_store(&two);
	must_open(&one, directory, "shared");
	check_value(&one, bytes("k"), bytes("w"), __LINE__);
	close_store(&one);
}

TEST(modes_of_the_files)
{
	struct stat status;

	CHECK(stat(path_of(directory, "main"), &status) == 0 && (status.st_mode & 0777) == 0700);
	CHECK(stat(directory, &status) == 0 && (status.st_mode & 0777) == 0700);
	CHECK(stat(path_of(directory, "main/data.mdb"), &status) == 0 && (status.st_mode & 0777) == 0600);
	CHECK(stat(path_of(directory, "main/lock.mdb"), &status) == 0 && (status.st_mode & 0777) == 0600);
}

int
main(void)
{
	char deep[512];

	/* The directory is made with its parents, and is nobody else's. */
	snprintf(deep, sizeof(deep), "%s/zaris/4711", make_test_directory());
	directory = deep;
	must_open(store, directory, "main");
	RUN(modes_of_the_files);
	RUN(strings);
	RUN(what_is_wanted);
	RUN(lengths_of_keys);
	RUN(sizes_of_values);
	RUN(hashes);
	RUN(preconditions_table);
	RUN(the_rest_of_the_contract);
	close_store(store);
	RUN(versions);
	must_open(store, directory, "expiry");
	RUN(expiry_actions);
	RUN(expiry_times);
	RUN(expired_records_are_removed);
	RUN(leftovers_remove_nothing);
	close_store(store);
	RUN(one_transaction_a_group);
	RUN(order_within_a_group);
	RUN(large_groups_are_split);
	RUN(detached_operations);
	RUN(submitting_behind_a_queue);
	RUN(a_deadline_within_a_queue);
	RUN(growth);
	RUN(damaged_records);
	RUN(two_clients);
	remove_tree(test_directory);
	return test_end();
}
