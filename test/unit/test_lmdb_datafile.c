/*
 * test_lmdb_datafile.c
 *	  Files that are not, not quite, or not any more a store: refused with a sentence, left as they are, never mapped.
 *
 * The header offsets below are LMDB's (data version 1, 64 bits): a page header of 16 bytes, then magic, version, ...
 */
#include "lmdb_support.h"

#include "stores/lmdb/datafile.h"

#define AT_FLAGS	   10
#define AT_MAGIC	   16
#define AT_VERSION	   20
#define AT_PAGE_SIZE   40
#define AT_LAST_PAGE   136
#define AT_TRANSACTION 144

static const char *directory;
static long		   page_size;

/* files in memory */

typedef struct Image
{
	char  *data;
	size_t len;
} Image;

static Image
load(const char *path)
{
	Image		image = {NULL, 0};
	struct stat status;
	int			fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &status) != 0)
		return image;
	image.len = (size_t) status.st_size;
	image.data = malloc(image.len + 1);
	if (read(fd, image.data, image.len) != (ssize_t) image.len)
		image.len = 0;
	close(fd);
	return image;
}

static void
save(const char *path, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t) len);
	close(fd);
}

/* A store of this name whose data file has these bytes. */
static void
plant(const char *name, const char *data, size_t len)
{
	remove_tree(path_of(directory, name));
	mkdir(path_of(directory, name), 0700);
	save(path_of(path_of(directory, name), "data.mdb"), data, len);
}

static bool
is_unchanged(const char *name, const char *data, size_t len)
{
	Image now = load(path_of(path_of(directory, name), "data.mdb"));
	bool  same = now.len == len && (len == 0 || memcmp(now.data, data, len) == 0);

	free(now.data);
	return same;
}

/* Opening fails, says so, and touches nothing. */
static void
check_refused(const char *name, const char *data, size_t len, const char *words, int line)
{
	Store store;
	bool  opened;

	plant(name, data, len);
	opened = open_store(&store, directory, name);
	if ((opened || strstr(store.problem, words) == NULL || !is_unchanged(name, data, len)) &&
		test_complain(__FILE__, line))
		printf("%s\n", opened ? "was opened" : store.problem);
	if (opened)
		close_store(&store);
}

/* A good store's file, closed. */
static Image
good_image(const char *name, int n)
{
	Store store;
	char  keys[400][16];
	char  value[300];
	Image image;

	memset(value, 'v', sizeof(value));
	must_open(&store, directory, name);
	for (int i = 0; i < n; i++)
	{
		ZarisOperation *operation = new_operation(&store, ZARIS_OP_PUT, (ZarisBytes){keys[i], 4});

		snprintf(keys[i], sizeof(keys[i]), "k%03d", i);
		operation->value = (ZarisBytes){value, sizeof(value)};
		zaris_batch_submit(store.batch, operation);
	}
	wait_store(&store);
	close_store(&store);
	image = load(path_of(path_of(directory, name), "data.mdb"));
	return image;
}

TEST(files_of_other_kinds)
{
	char zeros[20000] = {0};
	char text[20000];

	memset(text, 'x', sizeof(text));
	check_refused("bad", "", 0, "is not an LMDB file", __LINE__);
	check_refused("bad", "x", 1, "is not an LMDB file", __LINE__);
	check_refused("bad", text, sizeof(text), "is not an LMDB file", __LINE__);
	check_refused("bad", zeros, sizeof(zeros), "is not an LMDB file", __LINE__);
}

TEST(what_lies_where_a_store_should)
{
	Store store;

	/* Somebody removed the data file: that is a loss, and not a new store. */
	free(good_image("lost", 3).data);
	unlink(path_of(directory, "lost/data.mdb"));
	CHECK(!open_store(&store, directory, "lost"));
	CHECK(strstr(store.problem, "is missing") != NULL);
	CHECK(access(path_of(directory, "lost/data.mdb"), F_OK) != 0);

	/* Nothing at all in it: nothing was lost. */
	mkdir(path_of(directory, "empty"), 0700);
	must_open(&store, directory, "empty");
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("k"), bytes("v"))->status);
	close_store(&store);

	save(path_of(directory, "file"), "x", 1);
	CHECK(!open_store(&store, directory, "file"));
	CHECK(strstr(store.problem, "Not a directory") != NULL);
	mkdir(path_of(directory, "dir"), 0700);
	mkdir(path_of(directory, "dir/data.mdb"), 0700);
	CHECK(!open_store(&store, directory, "dir"));

	/* The directory of the stores itself is something else. */
	CHECK(!open_store(&store, path_of(directory, "file"), "main"));
	CHECK(!open_store(&store, path_of(directory, "file/sub"), "main"));

	/* What a crash in the making left over is in nobody's way. */
	mkdir(path_of(directory, ".fresh.new"), 0700);
	save(path_of(directory, ".fresh.new/data.mdb"), "half", 4);
	must_open(&store, directory, "fresh");
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("k"), bytes("v"))->status);
	close_store(&store);
	CHECK(access(path_of(directory, ".fresh.new"), F_OK) != 0);
}

/* Headers with one thing wrong in them */
TEST(headers_with_one_thing_wrong)
{
	Image	 good = good_image("head", 20);
	char	*data = malloc(good.len);
	uint32_t number;
	uint64_t large;

	memcpy(data, good.data, good.len);
	number = 2;
	memcpy(data + AT_VERSION, &number, 4);
	check_refused("bad", data, good.len, "another version of LMDB", __LINE__);

	memcpy(data, good.data, good.len);
	memcpy(data + page_size + AT_VERSION, &number, 4);
	check_refused("bad", data, good.len, "another version of LMDB", __LINE__);

	memcpy(data, good.data, good.len);
	data[page_size + AT_MAGIC] ^= 1;
	check_refused("bad", data, good.len, "damaged header", __LINE__);

	memcpy(data, good.data, good.len);
	data[page_size + AT_FLAGS] = 0;
	check_refused("bad", data, good.len, "damaged header", __LINE__);

	for (int i = 0; i < 4; i++)
	{
		static const uint32_t sizes[] = {0, 4095, 128, 1 << 20};

		memcpy(data, good.data, good.len);
		memcpy(data + AT_PAGE_SIZE, &sizes[i], 4);
		check_refused("bad", data, good.len, "damaged header", __LINE__);
	}

	/* A last page from another world: then nearly everything is missing. */
	memcpy(data, good.data, good.len);
	large = UINT64_C(1) << 40;
	memcpy(data + AT_LAST_PAGE, &large, 8);
	memcpy(data + page_size + AT_LAST_PAGE, &large, 8);
	check_refused("bad", data, good.len, "is cut off", __LINE__);
	large = UINT64_MAX;
	memcpy(data + AT_LAST_PAGE, &large, 8);
	memcpy(data + page_size + AT_LAST_PAGE, &large, 8);
	check_refused("bad", data, good.len, "damaged header", __LINE__);
	free(data);
	free(good.data);
}

/* Read everything there is; in a child, since what this is about ends processes. 0 = all there, 1 = refused. */
static int
read_all(const char *name, int n)
{
	Store			 store;
	ZarisPageRequest request = {.record = ZARIS_RECORD_STRING, .want = ZARIS_WANT_VALUE, .count = 10000};
	ZarisOperation	*operation;

	if (!open_store(&store, directory, name))
		return 1;
	operation = page(&store, &request);
	if (operation->status != ZARIS_OK)
		return 1;
	if (operation->page->n != n)
		return 2;
	close_store(&store);
	return 0;
}

static int
read_all_in_child(const char *name, int n)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0)
		_exit(read_all(name, n));
	return wait_child(child);
}

/* Cut at every page, and in the middle of some: refused, or everything is there. Never a SIGBUS. */
TEST(a_file_cut_anywhere)
{
	Image good = good_image("cut", 200);
	int	  refused = 0;

	for (long len = (long) good.len; len >= page_size; len -= page_size / 2)
	{
		int result;

		plant("bad", good.data, (size_t) len);
		result = read_all_in_child("bad", 200);
		CHECK(result == 0 || result == 1);
		if (result == 1)
		{
			refused++;
			CHECK(is_unchanged("bad", good.data, (size_t) len));
		}
		if (len < (long) good.len - 3 * page_size)
			CHECK_INT(1, result);
	}
	CHECK(refused > 10);
	free(good.data);
}

/*
 * A transaction that takes pages and gives them back leaves a file that ends before its last page, and is whole: it
 * must open.  Cut by a page more, it must not.
 */
TEST(a_short_file_that_is_whole)
{
	const size_t	 large = 1024 * 1024;
	char			*value = calloc(1, large);
	ZarisLmdbProblem problem;
	Store			 store;
	MDB_envinfo		 info;
	Image			 image;
	int				 fd;

	free(good_image("short", 50).data);
	must_open(&store, directory, "short");

	/* Only once old pages wait to be used again does LMDB give new ones back. */
	for (int i = 0; i < 5; i++)
		CHECK_STATUS(ZARIS_OK, put_if(&store, bytes("k000"), bytes("v"), ZARIS_IF_PRESENT, 0)->status);
	for (int i = 0; i < 2; i++)
	{
		ZarisOperation *operation = new_operation(&store, i == 0 ? ZARIS_OP_PUT : ZARIS_OP_DELETE, bytes("large"));

		operation->value = (ZarisBytes){value, large};
		operation->precondition = i == 0 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT;
		zaris_batch_submit(store.batch, operation);
	}
	wait_store(&store);
	{
		ZarisLmdbEnvironment *environment = zaris_lmdb_acquire(directory, "short", &problem);

		mdb_env_info(environment->env, &info);
		zaris_lmdb_release(environment);
	}
	close_store(&store);
	image = load(path_of(directory, "short/data.mdb"));
	CHECK(image.len < (info.me_last_pgno + 1) * (size_t) page_size); /* else this tests nothing */
	CHECK_INT(0, read_all_in_child("short", 50));

	fd = open(path_of(directory, "short/data.mdb"), O_RDONLY);
	CHECK(zaris_lmdb_datafile_check(fd, "short", &problem));
	close(fd);
	for (int i = 1; i < 10; i++)
	{
		int result;

		plant("bad", image.data, image.len - (size_t) (i * page_size));
		result = read_all_in_child("bad", 50);
		CHECK(result == 0 || result == 1);
		if (i >= 8)
			CHECK_INT(1, result);
	}
	free(image.data);
	free(value);
}

/*
 * The same with a list of free pages that is a tree of several pages: while a reader is there, every transaction adds an
 * entry.  The room of a large value that came and went lies at the end, and is free.
 */
static size_t
make_deep_free_list(const char *name)
{
	const size_t		  large = 1024 * 1024;
	char				 *value = calloc(1, large);
	ZarisLmdbProblem	  problem;
	ZarisLmdbEnvironment *environment;
	MDB_stat			  stat;
	MDB_txn				 *reader;
	Store				  store;

	free(good_image(name, 50).data);
	must_open(&store, directory, name);
	environment = zaris_lmdb_acquire(directory, name, &problem);
	CHECK_INT(0, mdb_txn_begin(environment->env, NULL, MDB_RDONLY, &reader));
	for (int i = 0; i < 200; i++)
	{
		put_if(&store, bytes("k000"), bytes("v"), ZARIS_IF_PRESENT, 0);
		zaris_batch_reset(store.batch);
	}
	put(&store, bytes("large"), (ZarisBytes){value, large});
	delete_if(&store, bytes("large"), ZARIS_IF_PRESENT, 0);
	mdb_txn_abort(reader);

	/* Each transaction takes an old entry's pages and adds an entry, so in the end nothing lies at the end any more. */
	for (int i = 0; i < 400; i++)
	{
		put_if(&store, (ZarisBytes){&"k000k010k020k030k040"[i % 5 * 4], 4}, bytes("v"), ZARIS_IF_PRESENT, 0);
		zaris_batch_reset(store.batch);
	}
	CHECK_INT(0, mdb_txn_begin(environment->env, NULL, MDB_RDONLY, &reader));
	mdb_stat(reader, 0, &stat);
	mdb_txn_abort(reader);
	zaris_lmdb_release(environment);
	close_store(&store);
	free(value);
	return stat.ms_depth;
}

TEST(a_deep_list_of_free_pages)
{
	Image image;
	long  whole = 0;

	CHECK(make_deep_free_list("deep") >= 2); /* else this tests nothing */
	image = load(path_of(directory, "deep/data.mdb"));
	for (long pages = (long) image.len / page_size; pages > 2; pages -= 16)
	{
		int result;

		plant("bad", image.data, (size_t) (pages * page_size));
		result = read_all_in_child("bad", 50);
		CHECK(result == 0 || result == 1);
		whole += result == 0;
	}
	CHECK(whole > 10 && whole < (long) image.len / page_size / 16);
	free(image.data);
}

/* An LMDB file, and a good one, that another program made */
static void
write_lmdb(const char *name, const char *database, const char *key, MDB_val value)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi	 dbi;
	MDB_val	 mdb_key = {strlen(key), (void *) key};

	remove_tree(path_of(directory, name));
	mkdir(path_of(directory, name), 0700);
	CHECK_INT(0, mdb_env_create(&env));
	mdb_env_set_maxdbs(env, 4);
	CHECK_INT(0, mdb_env_open(env, path_of(directory, name), 0, 0600));
	CHECK_INT(0, mdb_txn_begin(env, NULL, 0, &txn));
	CHECK_INT(0, mdb_dbi_open(txn, database, MDB_CREATE, &dbi));
	CHECK_INT(0, mdb_put(txn, dbi, &mdb_key, &value, 0));
	CHECK_INT(0, mdb_txn_commit(txn));
	mdb_env_close(env);
}

static void
check_foreign(const char *name, const char *words, int line)
{
	Image image = load(path_of(path_of(directory, name), "data.mdb"));

	check_refused("bad", image.data, image.len, words, line);
	free(image.data);
}

TEST(files_of_other_programs_and_formats)
{
	static const char newer[] = "zarisfdw\2\0\0\0\0\0\0\0 and what a newer format has";
	static const char nothing[] = "zarisfdw\0\0\0\0\0\0\0\0";
	static const char this_one[] = "zarisfdw\1\0\0\0\0\0\0\0";

	write_lmdb("other", NULL, "some key", (MDB_val){4, "text"});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", "accounts", "format", (MDB_val){4, "text"});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", NULL, "zaris_meta", (MDB_val){4, "text"});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", "zaris_meta", "format", (MDB_val){4, "text"});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", "zaris_meta", "format", (MDB_val){16, "sixteen letters."});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", "zaris_meta", "other", (MDB_val){sizeof(this_one) - 1, (void *) this_one});
	check_foreign("other", "belongs to another program", __LINE__);
	write_lmdb("other", "zaris_meta", "format", (MDB_val){sizeof(newer) - 1, (void *) newer});
	check_foreign("other", "has format 2, which is newer", __LINE__);
	write_lmdb("other", "zaris_meta", "format", (MDB_val){sizeof(nothing) - 1, (void *) nothing});
	check_foreign("other", "is damaged", __LINE__);
	write_lmdb("other", "zaris_meta", "format", (MDB_val){sizeof(this_one) - 1, (void *) this_one});
	check_foreign("other", "are damaged", __LINE__);
}

/* Pages of a good file overwritten: whatever happens then is an answer, not a crash by an assertion of LMDB. */
TEST(zeroed_pages)
{
	Image good = good_image("zeroed", 100);
	char *data = malloc(good.len);

	for (size_t at = 2 * (size_t) page_size; at < good.len; at += (size_t) page_size)
	{
		int result;

		memcpy(data, good.data, good.len);
		memset(data + at, 0, (size_t) page_size);
		plant("bad", data, good.len);
		result = read_all_in_child("bad", 100);
		CHECK(result == 0 || result == 1);
	}
	free(data);
	free(good.data);
}

int
main(void)
{
	page_size = sysconf(_SC_PAGESIZE);
	directory = make_test_directory();
	RUN(files_of_other_kinds);
	RUN(what_lies_where_a_store_should);
	if (sizeof(size_t) == 8)
		RUN(headers_with_one_thing_wrong);
	RUN(a_file_cut_anywhere);
	RUN(a_short_file_that_is_whole);
	RUN(a_deep_list_of_free_pages);
	RUN(files_of_other_programs_and_formats);
	RUN(zeroed_pages);
	remove_tree(test_directory);
	return test_end();
}
