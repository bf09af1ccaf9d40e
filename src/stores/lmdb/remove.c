/*
 * remove.c
 *	  Removes a store from the disk (lmdb.h tells the rules).
 */
#include "stores/lmdb/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/lmdb/files.h"

/* Whether another process has the store open: LMDB keeps a shared lock on the first byte of its lock file. */
static int
used_by_others(const char *path, bool *used)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	char		*file = zaris_lmdb_path(path, "", ZARIS_LMDB_LOCK, "");
	int			 code = 0;
	int			 fd;

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
	char *old = zaris_lmdb_path(directory, ".", name, ".old");
	int	  code = old == NULL ? ENOMEM : zaris_lmdb_remove(old);

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
		return zaris_lmdb_problem_code(problem, ENOMEM, "could not remove embedded store \"%s\"", name);
	if (lock < 0)
	{
		free(path);
		return false;
	}

	/* A damaged store may be removed too, so its files need not be whole. */
	if (stat(path, &status) != 0)
		code = errno;
	else if (zaris_lmdb_is_open_here(path))
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
		zaris_lmdb_problem(problem, ZARIS_NOT_FOUND, "there is no embedded store \"%s\"", name);
	else if (code == ENOTEMPTY)
		zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
						   "the directory of embedded store \"%s\" holds something that is not part of it", name);
	else if (used)
		zaris_lmdb_problem(problem, ZARIS_UNAVAILABLE, "embedded store \"%s\" is in use", name);
	else if (code != 0)
		zaris_lmdb_problem_code(problem, code, "could not remove embedded store \"%s\"", name);
	else
		good = true;
	zaris_lmdb_unlock(lock);
	free(path);
	return good;
}
