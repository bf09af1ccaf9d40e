/*
 * open.c
 *	  Opens and makes the files of a store (open.h).
 */
#include "stores/lmdb/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/lmdb/datafile.h"
#include "stores/lmdb/files.h"
#include "stores/lmdb/record.h"

#define MAGIC	   "zarisfdw"
#define FORMAT_LEN 16 /* magic, number (uint32), zero */
#define STATE_LEN  8
#define MAP_UNIT   ((size_t) 1024 * 1024) /* a multiple of any page size */

static const MDB_val format_key = {6, "format"};
static const MDB_val state_key = {5, "state"};

/* opening */

size_t
zaris_lmdb_round_map(size_t size)
{
	return (size + MAP_UNIT - 1) / MAP_UNIT * MAP_UNIT;
}

/* One try to open, with a map of a size. 0, or a code; then env is gone. */
static int
open_sized(const char *path, size_t map_size, MDB_env **opened)
{
	MDB_env *env;
	int		 code = mdb_env_create(&env);

	if (code != 0)
		return code;
	mdb_env_set_assert(env, zaris_lmdb_assertion_failed);
	if ((code = mdb_env_set_maxdbs(env, 3)) != 0 ||
		(code = mdb_env_set_maxreaders(env, zaris_lmdb_tuning.readers)) != 0 ||
		(code = mdb_env_set_mapsize(env, map_size)) != 0 ||
		(code = mdb_env_open(env, path, MDB_NOTLS, 0600)) != 0)
	{
		mdb_env_close(env);
		return code;
	}
	*opened = env;
	return 0;
}

/* A large map spares growing; where address space is limited (ulimit -v), one that fits will do. */
static int
open_env(const char *path, size_t file_size, MDB_env **opened)
{
	size_t least = zaris_lmdb_round_map(file_size + MAP_UNIT);
	size_t size = zaris_lmdb_round_map(zaris_lmdb_tuning.map_size);

	if (size < least * 2)
		size = least * 2;
	for (;;)
	{
		int code = open_sized(path, size, opened);

		if (code != ENOMEM || size == least)
			return code;
		size = size / 2 > least ? zaris_lmdb_round_map(size / 2) : least;
	}
}

/*
 * Everything that a store consists of is there from its first moment, so what is missing means that it is none of
 * ours.
 */
static int
open_databases(MDB_txn *txn, ZarisLmdbEnvironment *environment, unsigned flags)
{
	int code = mdb_dbi_open(txn, "zaris_meta", flags, &environment->meta);

	if (code == 0)
		code = mdb_dbi_open(txn, "zaris_records", flags, &environment->records);
	if (code == 0)
		code = mdb_dbi_open(txn, "zaris_expiries", flags, &environment->expiries);
	return code;
}

static bool
foreign(const ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
							  "the data file of embedded store \"%s\" belongs to another program", environment->name);
}

/*
 * Is this a store of ours, in a format that we know? The meta database alone tells, whatever else a newer format has.
 */
static bool
check_format(MDB_txn *txn, ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	MDB_val	 key = format_key;
	MDB_val	 value;
	uint32_t number;
	int		 code = mdb_dbi_open(txn, "zaris_meta", 0, &environment->meta);

	if (code == 0)
		code = mdb_get(txn, environment->meta, &key, &value);
	if (code == MDB_NOTFOUND || code == MDB_INCOMPATIBLE)
		return foreign(environment, problem);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "could not read the format of embedded store \"%s\"",
									   environment->name);
	if (value.mv_size < FORMAT_LEN || memcmp(value.mv_data, MAGIC, 8) != 0)
		return foreign(environment, problem);

	number = zaris_lmdb_load32((const char *) value.mv_data + 8);
	if (number > ZARIS_LMDB_FORMAT)
		return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
								  "embedded store \"%s\" has format %u, which is newer than this program knows (%d)",
								  environment->name, (unsigned) number, ZARIS_LMDB_FORMAT);
	if (number < 1)
		return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
								  "the format number of embedded store \"%s\" is damaged", environment->name);
	return true;
}

/*
 * The names of the databases become handles, which live as long as the environment: the transaction must be
 * committed.
 */
static bool
attach_databases(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	MDB_txn *txn;
	int		 code = mdb_txn_begin(environment->env, NULL, MDB_RDONLY, &txn);

	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "could not read embedded store \"%s\"", environment->name);
	if (!check_format(txn, environment, problem))
	{
		mdb_txn_abort(txn);
		return false;
	}
	code = open_databases(txn, environment, 0);
	if (code == 0)
		code = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	if (code == MDB_NOTFOUND || code == MDB_INCOMPATIBLE)
		return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
								  "the databases of embedded store \"%s\" are damaged", environment->name);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "could not read embedded store \"%s\"", environment->name);
	environment->max_key = (size_t) mdb_env_get_maxkeysize(environment->env);
	return true;
}

typedef struct AttachWork
{
	ZarisLmdbEnvironment *environment;
	ZarisLmdbProblem	 *problem;
} AttachWork;

static int
attach_work(void *argument)
{
	AttachWork *work = argument;

	return attach_databases(work->environment, work->problem) ? 0 : -1;
}

/*
 * Open the files that are there.  The directory is locked, so nobody opens them at the same time.  The data file is
 * checked by reading before LMDB maps it.
 */
bool
zaris_lmdb_open_files(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	AttachWork	work = {environment, problem};
	char	   *data = zaris_lmdb_path(environment->path, "", ZARIS_LMDB_DATA, "");
	struct stat status;
	bool		good,
		asserted;
	int fd,
		code,
		dead;

	if (data == NULL)
		return zaris_lmdb_problem_code(problem, ENOMEM, "could not open embedded store \"%s\"", environment->name);
	fd = open(data, O_RDONLY | O_CLOEXEC);
	good = fd >= 0 && fstat(fd, &status) == 0;
	if (!good)
		zaris_lmdb_problem_code(problem, errno, "could not open the data file of embedded store \"%s\"",
								environment->name);
	else
		good = zaris_lmdb_datafile_check(fd, environment->name, problem);
	if (fd >= 0)
		close(fd);
	free(data);
	if (!good)
		return false;

	code = open_env(environment->path, (size_t) status.st_size, &environment->env);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "could not open embedded store \"%s\"", environment->name);
	environment->device = status.st_dev;
	environment->inode = status.st_ino;

	/* Slots of processes that were killed: each keeps pages from being used again. */
	(void) mdb_reader_check(environment->env, &dead);
	if (zaris_lmdb_guarded(attach_work, &work, &asserted) == 0)
		return true;
	if (asserted)
		zaris_lmdb_problem_code(problem, MDB_CORRUPTED, "could not read embedded store \"%s\"", environment->name);
	mdb_env_close(environment->env);
	environment->env = NULL;
	return false;
}

/* making */

/* The databases and their first entries, in one transaction. 0, or a code. */
static int
write_first(MDB_env *env, ZarisLmdbEnvironment *environment)
{
	char	 format[FORMAT_LEN] = MAGIC;
	char	 state[STATE_LEN] = {0};
	MDB_val	 key = format_key;
	MDB_val	 value = {FORMAT_LEN, format};
	MDB_txn *txn;
	int		 code = mdb_txn_begin(env, NULL, 0, &txn);

	if (code != 0)
		return code;
	zaris_lmdb_store32(format + 8, ZARIS_LMDB_FORMAT);
	zaris_lmdb_store32(format + 12, 0);
	code = open_databases(txn, environment, MDB_CREATE);
	if (code == 0)
		code = mdb_put(txn, environment->meta, &key, &value, 0);
	key = state_key;
	value = (MDB_val){STATE_LEN, state};
	if (code == 0)
		code = mdb_put(txn, environment->meta, &key, &value, 0);
	if (code == 0)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return code;
}

/* Make a store in a directory of its own that nobody looks for. 0, or a code. */
static int
make_in(const char *path, ZarisLmdbEnvironment *environment)
{
	MDB_env *env;
	char	*lock;
	int		 code = zaris_lmdb_remove(path);

	if (code != 0)
		return code;
	if (mkdir(path, 0700) != 0)
		return errno;
	code = open_env(path, 0, &env);
	if (code == 0)
	{
		code = write_first(env, environment);
		mdb_env_close(env);
	}

	/* The lock file holds nothing worth keeping, and its mutexes belong to this environment. */
	lock = zaris_lmdb_path(path, "", ZARIS_LMDB_LOCK, "");
	if (lock != NULL)
		(void) unlink(lock);
	free(lock);
	return code == 0 ? zaris_lmdb_sync_directory(path) : code;
}

/*
 * Make the store.  It gets its name only when it is complete and on the disk: a store without a whole data file is
 * therefore never half made but damaged, and is not taken for an empty one.
 */
bool
zaris_lmdb_make_store(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	char *path = zaris_lmdb_path(environment->directory, ".", environment->name, ".new");
	int	  code = path == NULL ? ENOMEM : make_in(path, environment);
	bool  occupied = false;

	/* An empty directory of that name is replaced; anything else stays as it is. */
	if (code == 0 && rename(path, environment->path) != 0)
	{
		code = errno;
		occupied = code == ENOTEMPTY || code == EEXIST;
	}
	if (code == 0)
		code = zaris_lmdb_sync_directory(environment->directory);
	else if (path != NULL)
		(void) zaris_lmdb_remove(path);
	free(path);

	if (occupied)
		return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
								  "the data file of embedded store \"%s\" is missing", environment->name);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "could not create embedded store \"%s\"", environment->name);
	return true;
}
