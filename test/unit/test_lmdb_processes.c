/*
 * test_lmdb_processes.c
 *	  The embedded store with several processes: growth, races, kill -9, readers, forks, removal.
 *
 * Children are forked before anything is open, as backends are, except where the opposite is the subject.
 */
#include "lmdb_support.h"

#include <sys/file.h>
#include <sys/prctl.h>

static const char *directory;

/* A child that runs work() and exits with its result. */
static pid_t
start(int (*work)(int number), int number)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0)
	{
		/* A test that is broken off leaves nobody behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(work(number));
	}
	return child;
}

static void *
shared_memory(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void
wait_until(volatile int *value, int at_least)
{
	for (int i = 0; i < 20000 && *value < at_least; i++)
		usleep(1000);
}

static ZarisBytes
numbered(char room[16], const char *prefix, int number)
{
	return (ZarisBytes){room, (size_t) snprintf(room, 16, "%s%06d", prefix, number)};
}

/* many make the same new store */

static int
make_and_put(int number)
{
	Store store;
	char  key[16];

	if (!open_store(&store, directory, "race"))
	{
		fprintf(stderr, "%s\n", store.problem);
		return 1;
	}
	if (put(&store, numbered(key, "k", number), bytes("v"))->status != ZARIS_OK)
		return 2;
	close_store(&store);
	return 0;
}

TEST(many_make_the_same_store)
{
	pid_t children[8];
	Store store;
	char  key[16];

	for (int i = 0; i < 8; i++)
		children[i] = start(make_and_put, i);
	for (int i = 0; i < 8; i++)
		CHECK_INT(0, wait_child(children[i]));
	must_open(&store, directory, "race");
	for (int i = 0; i < 8; i++)
		CHECK_STATUS(ZARIS_OK, get(&store, numbered(key, "k", i))->status);
	close_store(&store);
}

/* one process makes the map grow under another */

static volatile int *turn;

static int
grow_in_child(int number)
{
	Store store;
	char *value = calloc(1, 100000);
	char  key[16];

	must_open(&store, directory, "grown");
	wait_until(turn, 1);
	for (int i = 0; i < 200; i++)
	{
		if (put(&store, numbered(key, "c", i), (ZarisBytes){value, 100000})->status != ZARIS_OK)
			return 1;
		zaris_batch_reset(store.batch);
	}
	*turn = 2;
	wait_until(turn, 3);
	for (int i = 0; i < 200; i++)
	{
		if (get(&store, numbered(key, "p", i))->status != ZARIS_OK)
			return 2;
		zaris_batch_reset(store.batch);
	}
	close_store(&store);
	free(value);
	return 0;
}

TEST(growth_by_others)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	char		   *value = calloc(1, 200000);
	Store			store;
	pid_t			child;
	char			key[16];

	zaris_lmdb_tuning.map_size = 1024 * 1024;
	turn = shared_memory(sizeof(int));
	child = start(grow_in_child, 0);
	must_open(&store, directory, "grown");
	CHECK_STATUS(ZARIS_NOT_FOUND, get(&store, bytes("none"))->status);
	*turn = 1;
	wait_until(turn, 2);

	/* What lies beyond this process' map is there all the same, for reading and for writing. */
	for (int i = 0; i < 200; i++)
	{
		CHECK_STATUS(ZARIS_OK, get(&store, numbered(key, "c", i))->status);
		zaris_batch_reset(store.batch);
	}
	for (int i = 0; i < 200; i++)
	{
		CHECK_STATUS(ZARIS_OK, put(&store, numbered(key, "p", i), (ZarisBytes){value, 200000})->status);
		zaris_batch_reset(store.batch);
	}
	*turn = 3;
	CHECK_INT(0, wait_child(child));
	close_store(&store);
	zaris_lmdb_tuning = usual;
	free(value);
}

/* increments by compare and set */

static int
increment(int number)
{
	Store store;

	must_open(&store, directory, "counter");
	for (int done = 0; done < 100;)
	{
		ZarisOperation *operation = get(&store, bytes("n"));
		char			text[16];
		int				n;

		if (operation->status != ZARIS_OK)
			return 1;
		snprintf(text, sizeof(text), "%.*s", (int) operation->result.len, operation->result.data);
		n = atoi(text);
		snprintf(text, sizeof(text), "%d", n + 1);
		operation = put_if(&store, bytes("n"), bytes(text), ZARIS_IF_MATCH_VERSION, operation->version);
		if (operation->status == ZARIS_OK)
			done++;
		else if (operation->status != ZARIS_CONFLICT)
			return 2;
		zaris_batch_reset(store.batch);
	}
	close_store(&store);
	return 0;
}

TEST(increments_by_compare_and_set)
{
	pid_t children[4];
	Store store;

	must_open(&store, directory, "counter");
	put(&store, bytes("n"), bytes("0"));
	close_store(&store);
	for (int i = 0; i < 4; i++)
		children[i] = start(increment, i);
	for (int i = 0; i < 4; i++)
		CHECK_INT(0, wait_child(children[i]));
	must_open(&store, directory, "counter");
	CHECK(same_bytes(get(&store, bytes("n"))->result, bytes("400")));
	close_store(&store);
}

/* kill -9 */

static volatile int *acknowledged;

static void
fill_value(char *value, size_t size, int number)
{
	for (size_t i = 0; i < size; i++)
		value[i] = (char) (number + (int) i);
}

/* Write without end; what was answered is counted where the parent sees it. Sizes in and out of LMDB's pages. */
static int
write_for_ever(int number)
{
	Store store;
	char  key[16];
	char  value[9000];

	must_open(&store, directory, "killed");
	for (int i = *acknowledged;; i++)
	{
		size_t size = (size_t) (i * 37) % sizeof(value);

		fill_value(value, size, i);

		/* The one that was in flight when its predecessor died may be there. */
		if (put(&store, numbered(key, "k", i), (ZarisBytes){value, size})->status != ZARIS_OK &&
			put_if(&store, numbered(key, "k", i), (ZarisBytes){value, size}, ZARIS_IF_PRESENT, 0)->status != ZARIS_OK)
			return 1;
		*acknowledged = i + 1;
		zaris_batch_reset(store.batch);
	}
	return 0;
}

static void
check_acknowledged(Store *store)
{
	char key[16];
	char value[9000];
	int	 n = *acknowledged;

	for (int i = 0; i <= n; i++)
	{
		ZarisOperation *operation = get(store, numbered(key, "k", i));
		size_t			size = (size_t) (i * 37) % sizeof(value);

		fill_value(value, size, i);
		if (i < n)
			CHECK_STATUS(ZARIS_OK, operation->status);
		else if (operation->status == ZARIS_NOT_FOUND)
			continue; /* the last one: there or not, but nothing in between */
		CHECK(same_bytes(operation->result, (ZarisBytes){value, size}));
		zaris_batch_reset(store->batch);
	}
}

TEST(killed_writers)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	Store			watcher;

	zaris_lmdb_tuning.map_size = 1024 * 1024;
	acknowledged = shared_memory(sizeof(int));
	for (int round = 0; round < 20; round++)
	{
		int	  before = *acknowledged;
		pid_t child = start(write_for_ever, 0);

		/* Odd rounds: this process has it open too, and must get the dead one's lock. */
		if (round % 2 == 1)
			must_open(&watcher, directory, "killed");
		wait_until(acknowledged, before + 1);
		usleep((useconds_t) (test_random(NULL) % 30000));
		kill(child, SIGKILL);
		CHECK_INT(-SIGKILL, wait_child(child));
		CHECK(*acknowledged > before);
		if (round % 2 == 0)
			must_open(&watcher, directory, "killed");
		check_acknowledged(&watcher);
		CHECK_STATUS(ZARIS_OK, put_if(&watcher, bytes("k000000"), (ZarisBytes){"", 0}, ZARIS_IF_PRESENT, 0)->status);
		close_store(&watcher);
	}
	zaris_lmdb_tuning = usual;
}

/* A writer that dies inside its transaction, with the lock: the next one gets it. */
static int
die_in_transaction(int number)
{
	ZarisLmdbProblem	  problem;
	ZarisLmdbEnvironment *environment = zaris_lmdb_acquire(directory, "inside", &problem);
	MDB_val				  key = {2, "kx"};
	MDB_val				  value = {1, "v"};
	MDB_txn				 *txn;

	if (environment == NULL || !zaris_lmdb_begin(environment, true, &txn, &problem))
		return 1;
	if (mdb_put(txn, environment->records, &key, &value, 0) != 0)
		return 2;
	raise(SIGKILL);
	return 3;
}

TEST(death_inside_a_transaction)
{
	Store store;

	must_open(&store, directory, "inside");
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("a"), bytes("v"))->status);
	CHECK_INT(-SIGKILL, wait_child(start(die_in_transaction, 0)));
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("b"), bytes("v"))->status);
	CHECK_STATUS(ZARIS_NOT_FOUND, get(&store, bytes("x"))->status);
	close_store(&store);
}

/* readers */

static volatile int *may_end;
static volatile int *reading;

static int
hold_slot(int number)
{
	Store store;

	must_open(&store, directory, "readers");
	if (get(&store, bytes("k"))->status != ZARIS_OK)
		return 1;
	__sync_fetch_and_add(reading, 1);
	wait_until(may_end, 1);
	close_store(&store);
	return 0;
}

TEST(a_full_table_of_readers)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	pid_t			children[3];
	Store			store;
	Store			last;
	ZarisOperation *operation;

	zaris_lmdb_tuning.readers = 3;
	may_end = shared_memory(sizeof(int));
	reading = shared_memory(sizeof(int));
	must_open(&store, directory, "readers");
	put(&store, bytes("k"), bytes("v"));
	for (int i = 0; i < 3; i++)
		children[i] = start(hold_slot, i);
	wait_until(reading, 3);

	/* Every slot belongs to somebody who lives. Writing needs none. */
	operation = get(&store, bytes("k"));
	CHECK_STATUS(ZARIS_UNAVAILABLE, operation->last_status);
	CHECK(strstr(operation->error_text, "too many processes read it") != NULL);
	CHECK_STATUS(ZARIS_OK, put_if(&store, bytes("k"), bytes("w"), ZARIS_IF_PRESENT, 0)->status);

	/* A dead one's slot is taken over. */
	kill(children[1], SIGKILL);
	CHECK_INT(-SIGKILL, wait_child(children[1]));
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("k"))->status);
	*may_end = 1;
	CHECK_INT(0, wait_child(children[0]));
	CHECK_INT(0, wait_child(children[2]));
	close_store(&store);
	zaris_lmdb_tuning = usual;

	must_open(&last, directory, "readers");
	CHECK(same_bytes(get(&last, bytes("k"))->result, bytes("w")));
	close_store(&last);
}

/* An idle process that has read keeps no pages from being used again: the file does not grow for it. */
static int
read_and_idle(int number)
{
	return hold_slot(number);
}

TEST(an_idle_reader)
{
	char		value[3000] = {0};
	struct stat before,
		after;
	Store store;
	pid_t child;

	*may_end = *reading = 0;
	must_open(&store, directory, "readers");
	child = start(read_and_idle, 0);
	wait_until(reading, 1);
	for (int i = 0; i < 40; i++)
	{
		if (i == 20)
			stat(path_of(directory, "readers/data.mdb"), &before);
		put_if(&store, bytes("k"), (ZarisBytes){value, sizeof(value)}, ZARIS_IF_PRESENT, 0);
		zaris_batch_reset(store.batch);
	}
	stat(path_of(directory, "readers/data.mdb"), &after);
	CHECK_INT(before.st_size, after.st_size);
	*may_end = 1;
	CHECK_INT(0, wait_child(child));
	close_store(&store);
}

/* A reader that dies while it reads: before the map grows for it, its slot is cleared. */
static int
die_while_reading(int number)
{
	ZarisLmdbProblem	  problem;
	ZarisLmdbEnvironment *environment = zaris_lmdb_acquire(directory, "stale", &problem);
	MDB_txn				 *txn;

	if (environment == NULL || !zaris_lmdb_begin(environment, false, &txn, &problem))
		return 1;
	*reading = 1;
	wait_until(may_end, 1);
	raise(SIGKILL);
	return 2;
}

TEST(a_reader_that_died)
{
	ZarisLmdbTuning		  usual = zaris_lmdb_tuning;
	char				  value[3000] = {0};
	ZarisLmdbProblem	  problem;
	ZarisLmdbEnvironment *environment;
	MDB_envinfo			  before,
		after;
	Store store;
	pid_t child;

	*may_end = *reading = 0;
	zaris_lmdb_tuning.map_size = 1024 * 1024;
	child = start(die_while_reading, 0);
	wait_until(reading, 1);
	must_open(&store, directory, "stale");
	put(&store, bytes("k"), bytes("v"));
	*may_end = 1;
	CHECK_INT(-SIGKILL, wait_child(child));
	environment = zaris_lmdb_acquire(directory, "stale", &problem);
	mdb_env_info(environment->env, &before);
	for (int i = 0; i < 400; i++)
	{
		CHECK_STATUS(ZARIS_OK, put_if(&store, bytes("k"), (ZarisBytes){value, 3000}, ZARIS_IF_PRESENT, 0)->status);
		zaris_batch_reset(store.batch);
	}
	mdb_env_info(environment->env, &after);
	CHECK((after.me_last_pgno + 100) * 4096 > before.me_mapsize); /* it did fill up: else this tests nothing */
	CHECK_INT(before.me_mapsize, after.me_mapsize);
	zaris_lmdb_release(environment);
	close_store(&store);
	zaris_lmdb_tuning = usual;
}

/* forks */

static Store inherited;

static int
use_inherited(int number)
{
	Store			own;
	ZarisOperation *operation = put(&inherited, bytes("child"), bytes("v"));

	if (operation->status != ZARIS_INVALID_REQUEST || strstr(operation->error_text, "parent process") == NULL)
		return 1;
	must_open(&own, directory, "forked");
	if (put(&own, bytes("child"), bytes("v"))->status != ZARIS_OK)
		return 2;
	if (get(&own, bytes("parent"))->status != ZARIS_OK)
		return 3;
	close_store(&own);
	close_store(&inherited); /* closes nothing of the parent's */
	return 0;
}

TEST(forked_with_an_open_store)
{
	must_open(&inherited, directory, "forked");
	CHECK_STATUS(ZARIS_OK, put(&inherited, bytes("parent"), bytes("v"))->status);
	CHECK_STATUS(ZARIS_OK, get(&inherited, bytes("parent"))->status);
	for (int i = 0; i < 2; i++)
	{
		CHECK_INT(0, wait_child(start(use_inherited, i)));
		CHECK_STATUS(ZARIS_OK, delete_if(&inherited, bytes("child"), ZARIS_IF_PRESENT, 0)->status);
		CHECK_STATUS(ZARIS_OK, get(&inherited, bytes("parent"))->status);
	}
	close_store(&inherited);
}

/* the directory's lock */

static volatile int *locked;

/* Hold the lock for so many milliseconds. */
static int
hold_lock(int ms)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY);

	if (flock(fd, LOCK_EX) != 0)
		return 1;
	*locked = 1;
	usleep((useconds_t) ms * 1000);
	return 0;
}

TEST(a_locked_directory)
{
	Store			store;
	pid_t			child;
	ZarisOperation *operation;
	const char	   *problem;

	locked = shared_memory(sizeof(int));
	child = start(hold_lock, 300);
	wait_until(locked, 1);
	CHECK_STATUS(ZARIS_UNAVAILABLE, zaris_lmdb_drop(directory, "nobody", &problem));
	must_open(&store, directory, "waits");
	CHECK_INT(0, zaris_client_connections(store.client));
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("k"), bytes("v"))->status);
	CHECK_INT(1, zaris_client_connections(store.client));
	CHECK_INT(0, wait_child(child));
	close_store(&store);

	/* For longer than anybody waits */
	*locked = 0;
	child = start(hold_lock, 100000);
	wait_until(locked, 1);
	must_open(&store, directory, "waits");
	zaris_batch_set_deadline(store.batch, zaris_loop_now_us() + 200000);
	operation = put(&store, bytes("k"), bytes("v"));
	CHECK_STATUS(ZARIS_DEADLINE_EXCEEDED, operation->status);
	close_store(&store);
	test_open_timeout_us = 50000;
	must_open(&store, directory, "waits");
	operation = put(&store, bytes("k"), bytes("v"));
	CHECK_STATUS(ZARIS_UNAVAILABLE, operation->status);
	CHECK_TEXT("another process is opening or removing an embedded store", operation->error_text);
	test_open_timeout_us = 5000000;
	kill(child, SIGKILL);
	wait_child(child);
	close_store(&store);
}

/* removal */

static int
hold_open(int number)
{
	Store store;

	must_open(&store, directory, "dropped");
	*reading = 1;
	wait_until(may_end, 1);
	close_store(&store);
	return 0;
}

TEST(removal)
{
	Store		store;
	const char *problem;
	pid_t		child;
	int			fd;

	*may_end = *reading = 0;
	CHECK_STATUS(ZARIS_NOT_FOUND, zaris_lmdb_drop(directory, "dropped", &problem));
	CHECK_STATUS(ZARIS_NOT_FOUND, zaris_lmdb_drop("/nowhere/at/all", "dropped", &problem));
	CHECK_STATUS(ZARIS_INVALID_REQUEST, zaris_lmdb_drop(directory, "..", &problem));
	must_open(&store, directory, "dropped");
	put(&store, bytes("k"), bytes("v"));
	CHECK_STATUS(ZARIS_UNAVAILABLE, zaris_lmdb_drop(directory, "dropped", &problem));
	CHECK(strstr(problem, "is in use") != NULL);
	close_store(&store);

	child = start(hold_open, 0);
	wait_until(reading, 1);
	CHECK_STATUS(ZARIS_UNAVAILABLE, zaris_lmdb_drop(directory, "dropped", &problem));
	*may_end = 1;
	CHECK_INT(0, wait_child(child));

	/* Something else in its directory: nothing is removed, and the store is as it was. */
	fd = open(path_of(directory, "dropped/notes"), O_CREAT | O_WRONLY, 0600);
	close(fd);
	CHECK_STATUS(ZARIS_INVALID_REQUEST, zaris_lmdb_drop(directory, "dropped", &problem));
	must_open(&store, directory, "dropped");
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("k"))->status);
	close_store(&store);
	unlink(path_of(directory, "dropped/notes"));

	CHECK_STATUS(ZARIS_OK, zaris_lmdb_drop(directory, "dropped", &problem));
	CHECK(access(path_of(directory, "dropped"), F_OK) != 0);
	CHECK(access(path_of(directory, ".dropped.old"), F_OK) != 0);
	CHECK_STATUS(ZARIS_NOT_FOUND, zaris_lmdb_drop(directory, "dropped", &problem));
	must_open(&store, directory, "dropped");
	CHECK_STATUS(ZARIS_NOT_FOUND, get(&store, bytes("k"))->status);
	CHECK_INT(1, put(&store, bytes("k"), bytes("v"))->version);
	close_store(&store);

	/* A damaged one, which cannot be opened */
	fd = open(path_of(directory, "dropped/data.mdb"), O_WRONLY | O_TRUNC);
	close(fd);
	CHECK(!open_store(&store, directory, "dropped"));
	CHECK_STATUS(ZARIS_OK, zaris_lmdb_drop(directory, "dropped", &problem));
}

int
main(void)
{
	directory = make_test_directory();
	RUN(many_make_the_same_store);
	RUN(growth_by_others);
	RUN(increments_by_compare_and_set);
	RUN(killed_writers);
	RUN(death_inside_a_transaction);
	RUN(a_full_table_of_readers);
	RUN(an_idle_reader);
	RUN(a_reader_that_died);
	RUN(forked_with_an_open_store);
	RUN(a_locked_directory);
	RUN(removal);
	remove_tree(test_directory);
	return test_end();
}
