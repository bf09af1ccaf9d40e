/*
 * environment.c
 *	  Opens, makes, grows, closes and removes LMDB environments (environment.h).
 */
#include "stores/lmdb/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/check.h"
#include "stores/lmdb/datafile.h"
#include "stores/lmdb/files.h"
#include "stores/lmdb/record.h"

#define MAGIC			"zarisfdw"
#define FORMAT_LEN		16		/* magic, number (uint32), zero */
#define STATE_LEN		8
#define MAX_TRIES		10
#define MAP_UNIT		((size_t) 1024 * 1024)	/* a multiple of any page size */

ZarisLmdbTuning zaris_lmdb_tuning = {
	.map_size = (size_t) 1024 * 1024 * 1024,
	.map_step = (size_t) 16 * 1024 * 1024 * 1024,
	.readers = 2048,
	.group_bytes = 8 * 1024 * 1024,
	.page_bytes = 4 * 1024 * 1024,
};

static const MDB_val format_key = {6, "format"};
static const MDB_val state_key = {5, "state"};

/* every environment that is open in this process */
static ZarisLmdbEnvironment *registry = NULL;

/* where a failed assertion of LMDB goes; NULL = nowhere, it aborts */
static sigjmp_buf *escape = NULL;

/* assertions */

static void
assertion_failed(MDB_env *env, const char *message)
{
	if (escape != NULL)
		siglongjmp(*escape, 1);
}

int
zaris_lmdb_guarded(int (*work) (void *argument), void *argument, bool *asserted)
{
	sigjmp_buf	here;
	int			code;

	/* Only LMDB's frames and ours lie between here and the jump, and ours own nothing. */
	*asserted = false;
	if (sigsetjmp(here, 0) != 0)
	{
		escape = NULL;
		*asserted = true;
		return MDB_CORRUPTED;
	}
	escape = &here;
	code = work(argument);
	escape = NULL;
	return code;
}

/* opening */

static size_t
round_map(size_t size)
{
	return (size + MAP_UNIT - 1) / MAP_UNIT * MAP_UNIT;
}

/* One try to open, with a map of a size. 0, or a code; then env is gone. */
static int
open_sized(const char *path, size_t map_size, MDB_env **opened)
{
	MDB_env    *env;
	int			code = mdb_env_create(&env);

	if (code != 0)
		return code;
	mdb_env_set_assert(env, assertion_failed);
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
	size_t		least = round_map(file_size + MAP_UNIT);
	size_t		size = round_map(zaris_lmdb_tuning.map_size);

	if (size < least * 2)
		size = least * 2;
	for (;;)
	{
		int			code = open_sized(path, size, opened);

		if (code != ENOMEM || size == least)
			return code;
		size = size / 2 > least ? round_map(size / 2) : least;
	}
}

/* Everything that a store consists of is there from its first moment, so what is missing means that it is none of ours. */
static int
open_databases(MDB_txn *txn, ZarisLmdbEnvironment *environment, unsigned flags)
{
	int			code = mdb_dbi_open(txn, "zaris_meta", flags, &environment->meta);

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
							  "The data file of embedded store \"%s\" belongs to another program.", environment->name);
}

/* Is this a store of ours, in a format that we know? The meta database alone tells, whatever else a newer format has. */
static bool
check_format(MDB_txn *txn, ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	MDB_val		key = format_key;
	MDB_val		value;
	uint32_t	number;
	int			code = mdb_dbi_open(txn, "zaris_meta", 0, &environment->meta);

	if (code == 0)
		code = mdb_get(txn, environment->meta, &key, &value);
	if (code == MDB_NOTFOUND || code == MDB_INCOMPATIBLE)
		return foreign(environment, problem);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "Could not read the format of embedded store \"%s\"", environment->name);
	if (value.mv_size < FORMAT_LEN || memcmp(value.mv_data, MAGIC, 8) != 0)
		return foreign(environment, problem);

	number = zaris_lmdb_load32((const char *) value.mv_data + 8);
	if (number > ZARIS_LMDB_FORMAT)
		return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
								  "Embedded store \"%s\" has format %u, which is newer than this program knows (%d).",
								  environment->name, (unsigned) number, ZARIS_LMDB_FORMAT);
	if (number < 1)
		return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
								  "The format number of embedded store \"%s\" is damaged.", environment->name);
	return true;
}

/* The names of the databases become handles, which live as long as the environment: the transaction must be committed. */
static bool
attach_databases(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	MDB_txn    *txn;
	int			code = mdb_txn_begin(environment->env, NULL, MDB_RDONLY, &txn);

	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "Could not read embedded store \"%s\"", environment->name);
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
								  "The databases of embedded store \"%s\" are damaged.", environment->name);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "Could not read embedded store \"%s\"", environment->name);
	environment->max_key = (size_t) mdb_env_get_maxkeysize(environment->env);
	return true;
}

typedef struct AttachWork
{
	ZarisLmdbEnvironment *environment;
	ZarisLmdbProblem *problem;
} AttachWork;

static int
attach_work(void *argument)
{
	AttachWork *work = argument;

	return attach_databases(work->environment, work->problem) ? 0 : -1;
}

/*
 * Open the files that are there.  The directory is locked, so nobody opens them at the same time.  The data file is checked by
 * reading before LMDB maps it.
 */
static bool
open_files(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	AttachWork	work = {environment, problem};
	char	   *data = zaris_lmdb_path(environment->path, "", ZARIS_LMDB_DATA, "");
	struct stat status;
	bool		good,
				asserted;
	int			fd,
				code,
				dead;

	if (data == NULL)
		return zaris_lmdb_problem_code(problem, ENOMEM, "Could not open embedded store \"%s\"", environment->name);
	fd = open(data, O_RDONLY | O_CLOEXEC);
	good = fd >= 0 && fstat(fd, &status) == 0;
	if (!good)
		zaris_lmdb_problem_code(problem, errno, "Could not open the data file of embedded store \"%s\"", environment->name);
	else
		good = zaris_lmdb_datafile_check(fd, environment->name, problem);
	if (fd >= 0)
		close(fd);
	free(data);
	if (!good)
		return false;

	code = open_env(environment->path, (size_t) status.st_size, &environment->env);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "Could not open embedded store \"%s\"", environment->name);
	environment->device = status.st_dev;
	environment->inode = status.st_ino;

	/* Slots of processes that were killed: each keeps pages from being used again. */
	(void) mdb_reader_check(environment->env, &dead);
	if (zaris_lmdb_guarded(attach_work, &work, &asserted) == 0)
		return true;
	if (asserted)
		zaris_lmdb_problem_code(problem, MDB_CORRUPTED, "Could not read embedded store \"%s\"", environment->name);
	mdb_env_close(environment->env);
	environment->env = NULL;
	return false;
}

/* making */

/* The databases and their first entries, in one transaction. 0, or a code. */
static int
write_first(MDB_env *env, ZarisLmdbEnvironment *environment)
{
	char		format[FORMAT_LEN] = MAGIC;
	char		state[STATE_LEN] = {0};
	MDB_val		key = format_key;
	MDB_val		value = {FORMAT_LEN, format};
	MDB_txn    *txn;
	int			code = mdb_txn_begin(env, NULL, 0, &txn);

	if (code != 0)
		return code;
	zaris_lmdb_store32(format + 8, ZARIS_LMDB_FORMAT);
	zaris_lmdb_store32(format + 12, 0);
	code = open_databases(txn, environment, MDB_CREATE);
	if (code == 0)
		code = mdb_put(txn, environment->meta, &key, &value, 0);
	key = state_key;
	value = (MDB_val) {STATE_LEN, state};
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
	MDB_env    *env;
	char	   *lock;
	int			code = zaris_lmdb_remove(path);

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
static bool
make_store(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	char	   *path = zaris_lmdb_path(environment->directory, ".", environment->name, ".new");
	int			code = path == NULL ? ENOMEM : make_in(path, environment);
	bool		occupied = false;

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
								  "The data file of embedded store \"%s\" is missing.", environment->name);
	if (code != 0)
		return zaris_lmdb_problem_code(problem, code, "Could not create embedded store \"%s\"", environment->name);
	return true;
}

/* registry */

/* What a parent process had open is none of this process': forgotten, and left alone (closing would touch its files). */
static void
forget_parents(void)
{
	ZarisLmdbEnvironment **link = &registry;
	pid_t		pid = getpid();

	while (*link != NULL)
	{
		if ((*link)->pid != pid)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
}

/* By the data file itself, since one file may have many paths. */
static ZarisLmdbEnvironment *
find_open(const struct stat *status)
{
	forget_parents();
	for (ZarisLmdbEnvironment *at = registry; at != NULL; at = at->next)
	{
		if (at->device == status->st_dev && at->inode == status->st_ino)
			return at;
	}
	return NULL;
}

static void
free_environment(ZarisLmdbEnvironment *environment)
{
	if (environment == NULL)
		return;
	free(environment->directory);
	free(environment->name);
	free(environment->path);
	free(environment);
}

static ZarisLmdbEnvironment *
new_environment(const char *directory, const char *name)
{
	ZarisLmdbEnvironment *environment = calloc(1, sizeof(*environment));

	if (environment == NULL)
		return NULL;
	environment->directory = strdup(directory);
	environment->name = strdup(name);
	environment->path = zaris_lmdb_path(directory, "", name, "");
	environment->pid = getpid();
	environment->uses = 1;
	if (environment->directory != NULL && environment->name != NULL && environment->path != NULL)
		return environment;
	free_environment(environment);
	return NULL;
}

/* The data file's identity; 0, or an errno. */
static int
stat_data(const char *path, struct stat *status)
{
	char	   *data = zaris_lmdb_path(path, "", ZARIS_LMDB_DATA, "");
	int			code;

	if (data == NULL)
		return ENOMEM;
	code = stat(data, status) == 0 ? 0 : errno;
	free(data);
	return code;
}

/* Under the directory's lock: what is open already, else what is there, else what is made. */
static ZarisLmdbEnvironment *
acquire_locked(ZarisLmdbEnvironment *fresh, ZarisLmdbProblem *problem)
{
	struct stat status;
	int			code = stat_data(fresh->path, &status);

	if (code == 0)
	{
		ZarisLmdbEnvironment *open = find_open(&status);

		if (open != NULL)
		{
			open->uses++;
			return open;
		}
	}
	else if (code == ENOENT)
	{
		if (!make_store(fresh, problem))
			return NULL;
	}
	else
	{
		zaris_lmdb_problem_code(problem, code, "Could not open embedded store \"%s\"", fresh->name);
		return NULL;
	}

	if (!open_files(fresh, problem))
		return NULL;
	forget_parents();
	fresh->next = registry;
	registry = fresh;
	return fresh;
}

ZarisLmdbEnvironment *
zaris_lmdb_acquire(const char *directory, const char *name, ZarisLmdbProblem *problem)
{
	ZarisLmdbEnvironment *fresh = new_environment(directory, name);
	ZarisLmdbEnvironment *found;
	int			lock;

	if (fresh == NULL)
	{
		zaris_lmdb_problem_code(problem, ENOMEM, "Could not open embedded store \"%s\"", name);
		return NULL;
	}
	lock = zaris_lmdb_lock(directory, true, problem);
	found = lock < 0 ? NULL : acquire_locked(fresh, problem);
	zaris_lmdb_unlock(lock);
	if (found != fresh)
		free_environment(fresh);
	return found;
}

/* closing */

void
zaris_lmdb_break_off(ZarisLmdbEnvironment *environment)
{
	if (environment->env == NULL)
		return;
	if (environment->reader != NULL)
		mdb_txn_abort(environment->reader);
	environment->reader = NULL;
	mdb_env_close(environment->env);
	environment->env = NULL;
}

void
zaris_lmdb_release(ZarisLmdbEnvironment *environment)
{
	const struct timespec pause = {0, 1000000};
	ZarisLmdbProblem ignored;
	int			lock = -1;

	if (environment == NULL || --environment->uses > 0)
		return;

	/* A child that inherited it: the memory is its own, all else is the parent's. */
	if (environment->pid == getpid())
	{
		for (ZarisLmdbEnvironment **link = &registry; *link != NULL; link = &(*link)->next)
		{
			if (*link == environment)
			{
				*link = environment->next;
				break;
			}
		}

		/* The last one to close destroys LMDB's mutexes in some versions, which must not happen while another one opens. */
		for (int i = 0; i < MAX_TRIES && lock < 0; i++)
		{
			lock = zaris_lmdb_lock(environment->directory, false, &ignored);
			if (lock >= 0 || ignored.status != ZARIS_UNAVAILABLE)
				break;
			nanosleep(&pause, NULL);
		}
		zaris_lmdb_break_off(environment);
		zaris_lmdb_unlock(lock);
	}
	free_environment(environment);
}

/* transactions */

static bool
open_again(ZarisLmdbEnvironment *environment, ZarisLmdbProblem *problem)
{
	int			lock = zaris_lmdb_lock(environment->directory, false, problem);
	bool		good;

	if (lock < 0)
		return false;
	good = open_files(environment, problem);
	zaris_lmdb_unlock(lock);
	return good;
}

/* A reader that is kept needs no lock and no new slot: it only notes the newest state. */
static int
begin_read(ZarisLmdbEnvironment *environment, MDB_txn **txn)
{
	int			code;

	if (environment->reader != NULL)
	{
		code = mdb_txn_renew(environment->reader);
		if (code == 0)
		{
			*txn = environment->reader;
			return 0;
		}

		/* Its slot was taken for a dead one's, or the map moved: a new one will be right. */
		mdb_txn_abort(environment->reader);
		environment->reader = NULL;
		if (code != MDB_BAD_RSLOT)
			return code;
	}
	code = mdb_txn_begin(environment->env, NULL, MDB_RDONLY, &environment->reader);
	if (code != 0)
		environment->reader = NULL;
	*txn = environment->reader;
	return code;
}

/* Set the map's size; 0 = as large as others have made it. A map that is lost takes the environment with it. */
static int
set_map(ZarisLmdbEnvironment *environment, size_t size)
{
	int			code;

	/* Readers that are reset hold no pages, but one that is renewed while the map moves is not worth thinking about. */
	if (environment->reader != NULL)
		mdb_txn_abort(environment->reader);
	environment->reader = NULL;
	code = mdb_env_set_mapsize(environment->env, size);
	if (code != 0)
		zaris_lmdb_break_off(environment);
	return code;
}

/* After a failed begin: 0 = worth another try, since something was mended; else the code to report. */
static int
mend(ZarisLmdbEnvironment *environment, int code)
{
	int			dead;

	switch (code)
	{
		case MDB_MAP_RESIZED:
			return set_map(environment, 0);
		case MDB_READERS_FULL:
			dead = 0;
			(void) mdb_reader_check(environment->env, &dead);
			return dead > 0 ? 0 : code;
		case MDB_PANIC:
			zaris_lmdb_break_off(environment);
			return 0;
		default:
			return code;
	}
}

bool
zaris_lmdb_begin(ZarisLmdbEnvironment *environment, bool write, MDB_txn **txn, ZarisLmdbProblem *problem)
{
	int			code = 0;

	if (environment->pid != getpid())
		return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
								  "Embedded store \"%s\" was opened by a parent process.", environment->name);

	for (int i = 0; i < MAX_TRIES; i++)
	{
		int			mended;

		if (environment->env == NULL && !open_again(environment, problem))
			return false;
		code = write ? mdb_txn_begin(environment->env, NULL, 0, txn) : begin_read(environment, txn);
		if (code == 0)
			return true;
		mended = mend(environment, code);
		if (mended != 0)
		{
			code = mended;
			break;
		}
	}
	return zaris_lmdb_problem_code(problem, code, "Could not %s embedded store \"%s\"",
								   write ? "write to" : "read", environment->name);
}

void
zaris_lmdb_abort(ZarisLmdbEnvironment *environment, bool write, MDB_txn *txn)
{
	ZARIS_ASSERT(write || txn == environment->reader);
	if (write)
		mdb_txn_abort(txn);
	else
		mdb_txn_reset(txn);
}

/*
 * A commit writes the pages, makes them durable, then writes the header.  Up to the header nothing is applied.  If the header
 * itself cannot be written, LMDB puts the old one back as well as it can and refuses everything from then on; what the
 * disk has, nobody knows.
 */
int
zaris_lmdb_commit(ZarisLmdbEnvironment *environment, MDB_txn *txn, bool *in_doubt)
{
	MDB_txn    *probe;
	int			code = mdb_txn_commit(txn);

	*in_doubt = false;
	if (code == 0 || code == MDB_MAP_FULL)
		return code;
	if (begin_read(environment, &probe) == MDB_PANIC)
	{
		*in_doubt = true;
		zaris_lmdb_break_off(environment);
	}
	else if (environment->reader != NULL)
		mdb_txn_reset(environment->reader);
	return code;
}

int
zaris_lmdb_grow(ZarisLmdbEnvironment *environment, size_t bytes)
{
	MDB_envinfo info;
	size_t		step;
	int			dead = 0;

	/* Readers that died keep old pages from being used again: that may be all that is wrong. */
	(void) mdb_reader_check(environment->env, &dead);
	if (dead > 0)
		return 0;

	mdb_env_info(environment->env, &info);
	step = info.me_mapsize;
	if (step > zaris_lmdb_tuning.map_step)
		step = zaris_lmdb_tuning.map_step;
	if (step / 2 < bytes)
		step = bytes * 2;
	if (info.me_mapsize > SIZE_MAX / 2 - step - MAP_UNIT)
		return MDB_MAP_FULL;
	return set_map(environment, round_map(info.me_mapsize + step));
}

/* removing */

/* Whether another process has the store open: LMDB keeps a shared lock on the first byte of its lock file. */
static int
used_by_others(const char *path, bool *used)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	char	   *file = zaris_lmdb_path(path, "", ZARIS_LMDB_LOCK, "");
	int			code = 0;
	int			fd;

	*used = false;
	if (file == NULL)
		return ENOMEM;

	/* To close this descriptor drops this process' own locks on the file: it must not have the store open. */
	fd = open(file, O_RDWR | O_CLOEXEC);
	free(file);
	if (fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (fcntl(fd, F_GETLK, &lock) != 0)
		code = errno;
	else
		*used = lock.l_type != F_UNLCK;
	close(fd);
	return code;
}

/* Under the directory's lock, so nobody opens it meanwhile. 0, or a code. */
static int
remove_locked(const char *directory, const char *name, const char *path)
{
	char	   *old = zaris_lmdb_path(directory, ".", name, ".old");
	int			code = old == NULL ? ENOMEM : zaris_lmdb_remove(old);

	/* First it loses its name, all at once: a crash leaves the store, or something that nobody takes for it. */
	if (code == 0 && rename(path, old) != 0)
		code = errno;
	if (code == 0)
		code = zaris_lmdb_sync_directory(directory);
	if (code == 0)
		code = zaris_lmdb_remove(old);
	free(old);
	return code;
}

bool
zaris_lmdb_remove_store(const char *directory, const char *name, ZarisLmdbProblem *problem)
{
	char	   *path = zaris_lmdb_path(directory, "", name, "");
	int			lock = path == NULL ? -1 : zaris_lmdb_lock(directory, false, problem);
	struct stat status;
	bool		used = false;
	bool		good = false;
	int			code = 0;

	if (path == NULL)
		return zaris_lmdb_problem_code(problem, ENOMEM, "Could not remove embedded store \"%s\"", name);
	if (lock < 0)
	{
		free(path);
		return false;
	}

	/* A damaged store may be removed too, so its files need not be whole. */
	if (stat(path, &status) != 0)
		code = errno;
	else if (stat_data(path, &status) == 0 && find_open(&status) != NULL)
		used = true;
	else
	{
		code = zaris_lmdb_holds_nothing_else(path);
		if (code == 0)
			code = used_by_others(path, &used);
	}
	if (code == 0 && !used)
		code = remove_locked(directory, name, path);

	if (code == ENOENT)
		zaris_lmdb_problem(problem, ZARIS_NOT_FOUND, "There is no embedded store \"%s\".", name);
	else if (code == ENOTEMPTY)
		zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
						   "The directory of embedded store \"%s\" holds something that is not part of it.", name);
	else if (used)
		zaris_lmdb_problem(problem, ZARIS_UNAVAILABLE, "Embedded store \"%s\" is in use.", name);
	else if (code != 0)
		zaris_lmdb_problem_code(problem, code, "Could not remove embedded store \"%s\"", name);
	else
		good = true;
	zaris_lmdb_unlock(lock);
	free(path);
	return good;
}
