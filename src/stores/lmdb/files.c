/*
 * files.c
 *	  Directories of embedded stores (files.h).
 */
#include "stores/lmdb/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NAME 63

bool
zaris_lmdb_name_is_good(const char *name)
{
	const char *good = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t		len = strlen(name);

	return len >= 1 && len <= MAX_NAME && strspn(name, good) == len;
}

char *
zaris_lmdb_path(const char *directory, const char *prefix, const char *name, const char *suffix)
{
	size_t size = strlen(directory) + 1 + strlen(prefix) + strlen(name) + strlen(suffix) + 1;
	char  *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s/%s%s%s", directory, prefix, name, suffix);
	return path;
}

int
zaris_lmdb_sync_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = 0;

	if (fd < 0)
		return errno;

	/* Some file systems cannot do this, and need not. */
	if (fsync(fd) != 0 && errno != EINVAL && errno != EBADF)
		code = errno;
	close(fd);
	return code;
}

/* Make one directory whose parent is there, and make that durable. An existing one is fine. */
static int
make_directory(const char *path)
{
	char *parent;
	char *slash;
	int	  code;

	if (mkdir(path, 0700) != 0)
		return errno == EEXIST ? 0 : errno;

	parent = strdup(path);
	if (parent == NULL)
		return ENOMEM;
	slash = strrchr(parent, '/');
	if (slash == NULL || slash == parent)
		strcpy(parent, "/");
	else
		*slash = '\0';
	code = zaris_lmdb_sync_directory(parent);
	free(parent);
	return code;
}

/* Make a directory with its parents, the top one first. */
static int
make_directories(const char *path)
{
	char *part = strdup(path);
	int	  code = 0;

	if (part == NULL)
		return ENOMEM;
	for (char *at = part + 1; code == 0 && *at != '\0'; at++)
	{
		if (*at != '/')
			continue;

		/* A parent that is there may be one that we may not write to, or not even look into. */
		*at = '\0';
		if (access(part, F_OK) != 0)
			code = make_directory(part);
		*at = '/';
	}
	if (code == 0)
		code = make_directory(part);
	free(part);
	return code;
}

int
zaris_lmdb_lock(const char *directory, bool make, ZarisLmdbProblem *problem)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && make)
	{
		int code = make_directories(directory);

		if (code != 0)
		{
			zaris_lmdb_problem_code(problem, code, "could not create the directory of the embedded stores");
			return -1;
		}
		fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
	{
		if (errno == ENOENT)
			zaris_lmdb_problem(problem, ZARIS_NOT_FOUND, "there is no directory of embedded stores");
		else
			zaris_lmdb_problem_code(problem, errno, "could not open the directory of the embedded stores");
		return -1;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) != 0)
	{
		if (errno == EINTR)
			continue;
		if (errno == EWOULDBLOCK)
			zaris_lmdb_problem(problem, ZARIS_UNAVAILABLE, "another process is opening or removing an embedded store");
		else
			zaris_lmdb_problem_code(problem, errno, "could not lock the directory of the embedded stores");
		close(fd);
		return -1;
	}
	return fd;
}

void
zaris_lmdb_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}

int
zaris_lmdb_holds_nothing_else(const char *path)
{
	static const char *const ours[] = {".", "..", ZARIS_LMDB_DATA, ZARIS_LMDB_LOCK};
	DIR						*directory = opendir(path);
	struct dirent			*entry;
	int						 code = 0;

	if (directory == NULL)
		return errno;
	while (code == 0 && (entry = readdir(directory)) != NULL)
	{
		bool known = false;

		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
			known = known || strcmp(entry->d_name, ours[i]) == 0;
		if (!known)
			code = ENOTEMPTY;
	}
	closedir(directory);
	return code;
}

static int
remove_file(const char *directory, const char *file)
{
	char *path = zaris_lmdb_path(directory, "", file, "");
	int	  code = 0;

	if (path == NULL)
		return ENOMEM;
	if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
		code = errno;
	free(path);
	return code;
}

int
zaris_lmdb_remove(const char *path)
{
	int code = remove_file(path, ZARIS_LMDB_DATA);

	if (code == 0)
		code = remove_file(path, ZARIS_LMDB_LOCK);
	if (code == 0 && rmdir(path) != 0 && errno != ENOENT)
		code = errno;
	return code;
}
