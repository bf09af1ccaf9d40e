/*
 * environment.c
 *	  The registry of open environments, their transactions, and the growth of their maps (environment.h).
 */
#include "stores/lmdb/environment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/check.h"
#include "stores/lmdb/files.h"
#include "stores/lmdb/open.h"

#define MAX_TRIES 10

ZarisLmdbTuning zaris_lmdb_tuning = {
	.map_size = (size_t) 1024 * 1024 * 1024,
	.map_step = (size_t) 16 * 1024 * 1024 * 1024,
	.readers = 2048,
	.group_bytes = 8 * 1024 * 1024,
	.page_bytes = 4 * 1024 * 1024,
};

/* every environment that is open in this process */
static ZarisLmdbEnvironment *registry = NULL;

/* where a failed assertion of LMDB goes; NULL = nowhere, it aborts */
static sigjmp_buf *escape = NULL;

/* assertions */

void
zaris_lmdb_assertion_failed(MDB_env *env, const char *message)
{
	if (escape != NULL)
		siglongjmp(*escape, 1);
}

int
zaris_lmdb_guarded(int (*work)(void *argument), void *argument, bool *asserted)
{
	sigjmp_buf here;
	int		   code;

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

/* registry */

/*
 * What a parent process had open is none of this process': forgotten, and left alone (closing would touch its files).
 */
static void
forget_parents(void)
{
	ZarisLmdbEnvironment **link = &registry;
	pid_t				   pid = getpid();

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
	char *data = zaris_lmdb_path(path, "", ZARIS_LMDB_DATA, "");
	int	  code;

	if (data == NULL)
		return ENOMEM;
	code = stat(data, status) == 0 ? 0 : errno;
	free(data);
	return code;
}

bool
zaris_lmdb_is_open_here(const char *path)
{
	struct stat status;

	return stat_data(path, &status) == 0 && find_open(&status) != NULL;
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
		if (!zaris_lmdb_make_store(fresh, problem))
			return NULL;
	}
	else
	{
		zaris_lmdb_problem_code(problem, code, "could not open embedded store \"%s\"", fresh->name);
		return NULL;
	}

	if (!zaris_lmdb_open_files(fresh, problem))
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
	int					  lock;

	if (fresh == NULL)
	{
		zaris_lmdb_problem_code(problem, ENOMEM, "could not open embedded store \"%s\"", name);
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
	ZarisLmdbProblem	  ignored;
	int					  lock = -1;

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

		/*
		 * The last one to close destroys LMDB's mutexes in some versions, which must not happen while another one
		 * opens.
		 */
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
	int	 lock = zaris_lmdb_lock(environment->directory, false, problem);
	bool good;

	if (lock < 0)
		return false;
	good = zaris_lmdb_open_files(environment, problem);
	zaris_lmdb_unlock(lock);
	return good;
}

/* A reader that is kept needs no lock and no new slot: it only notes the newest state. */
static int
begin_read(ZarisLmdbEnvironment *environment, MDB_txn **txn)
{
	int code;

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
	int code;

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
	int dead;

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
	int code = 0;

	if (environment->pid != getpid())
		return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
								  "embedded store \"%s\" was opened by a parent process", environment->name);

	for (int i = 0; i < MAX_TRIES; i++)
	{
		int mended;

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
	return zaris_lmdb_problem_code(problem, code, "could not %s embedded store \"%s\"",
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
 * A commit writes the pages, makes them durable, then writes the header.  Up to the header nothing is applied.  If
 * the header itself cannot be written, LMDB puts the old one back as well as it can and refuses everything from then
 * on; what the disk has, nobody knows.
 */
int
zaris_lmdb_commit(ZarisLmdbEnvironment *environment, MDB_txn *txn, bool *in_doubt)
{
	MDB_txn *probe;
	int		 code = mdb_txn_commit(txn);

	*in_doubt = false;
	if (code == 0 || code == MDB_MAP_FULL)
		return code;
	if (begin_read(environment, &probe) == MDB_PANIC)
		*in_doubt = true; /* the next begin opens it again */
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
	if (info.me_mapsize > SIZE_MAX / 4 || step > SIZE_MAX / 4)
		return MDB_MAP_FULL;
	return set_map(environment, zaris_lmdb_round_map(info.me_mapsize + step));
}
