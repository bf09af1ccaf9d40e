/*
 * test_lmdb_faults.c
 *	  The embedded store on a disk that fails: what was not applied is said to be not applied, what nobody knows is
 *	  said to be unknown (I8), and the store goes on when the disk does.
 *
 * The system calls below take the place of libc's for LMDB as well.  LMDB writes pages with pwrite or writev, makes
 * them durable with fdatasync, and then writes the header with one short pwrite.
 */
#include "lmdb_support.h"

#include <grp.h>
#include <pwd.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define HEADER_MOST 512 /* a pwrite that is shorter is the header's */

typedef enum Fault
{
	NO_FAULT,
	PAGES_ENOSPC,
	PAGES_SHORT, /* half of it is written */
	SYNC_EIO,
	HEADER_EIO,
	MAP_ENOMEM,	   /* a map larger than map_limit */
	CREATE_ENOSPC, /* every write */
	N_FAULTS
} Fault;

static Fault	   fault = NO_FAULT;
static int		   times = 0; /* how often it still strikes */
static size_t	   map_limit = 0;
static const char *directory;

static bool
strikes(Fault which)
{
	if (fault != which || times == 0)
		return false;
	times--;
	return true;
}

static void
set_fault(Fault which, int n)
{
	fault = which;
	times = n;
}

ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	bool is_header = size < HEADER_MOST;

	if ((!is_header && strikes(PAGES_ENOSPC)) || strikes(CREATE_ENOSPC))
	{
		errno = ENOSPC;
		return -1;
	}
	if (is_header && strikes(HEADER_EIO))
	{
		errno = EIO;
		return -1;
	}
	if (!is_header && strikes(PAGES_SHORT))
		size /= 2;
	return syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t
writev(int fd, const struct iovec *parts, int n)
{
	if (strikes(PAGES_ENOSPC) || strikes(CREATE_ENOSPC))
	{
		errno = ENOSPC;
		return -1;
	}
	if (strikes(PAGES_SHORT))
		return syscall(SYS_writev, fd, parts, n - 1);
	return syscall(SYS_writev, fd, parts, n);
}

int
fdatasync(int fd)
{
	if (strikes(SYNC_EIO))
	{
		errno = EIO;
		return -1;
	}
	return (int) syscall(SYS_fdatasync, fd);
}

void *
mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
	if (fd >= 0 && map_limit > 0 && len > map_limit && (fault == MAP_ENOMEM))
	{
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *) syscall(SYS_mmap, address, len, protection, flags, fd, offset);
}

static ZarisBytes
numbered(char room[16], int number)
{
	return (ZarisBytes){room, (size_t) snprintf(room, 16, "k%06d", number)};
}

/* A write that certainly failed: the answer says so, nothing of it is there, and afterwards all is well. */
static void
check_certain_failure(Fault which, const char *words)
{
	Store			store;
	ZarisOperation *operation;
	int64_t			version;

	must_open(&store, directory, "certain");
	put(&store, bytes("old"), bytes("v"));
	version = put_if(&store, bytes("old"), bytes("w"), ZARIS_IF_PRESENT, 0)->version;
	set_fault(which, 1);
	operation = put_if(&store, bytes("old"), bytes("x"), ZARIS_IF_PRESENT, 0);
	CHECK_STATUS(ZARIS_OUT_OF_STORAGE, operation->status);
	CHECK(!operation->has_version);
	CHECK(strstr(operation->error_text, words) != NULL);
	CHECK_INT(0, times);
	set_fault(NO_FAULT, 0);
	operation = get(&store, bytes("old"));
	CHECK(same_bytes(operation->result, bytes("w")));
	CHECK_INT(version, operation->version);
	operation = put_if(&store, bytes("old"), bytes("y"), ZARIS_IF_MATCH_VERSION, version);
	CHECK_STATUS(ZARIS_OK, operation->status);
	CHECK(operation->version > version);
	close_store(&store);
	must_open(&store, directory, "certain");
	CHECK(same_bytes(get(&store, bytes("old"))->result, bytes("y")));
	close_store(&store);
}

TEST(pages_that_cannot_be_written)
{
	check_certain_failure(PAGES_ENOSPC, "No space left on device");
	check_certain_failure(PAGES_SHORT, "the disk is full");
	check_certain_failure(SYNC_EIO, "Input/output error");
}

/* The header could not be written: nobody knows. A second client of this process must find a store that works, too. */
TEST(a_header_that_cannot_be_written)
{
	Store store,
		other;
	ZarisOperation	*operation;
	ZarisRetryPolicy policy = {3, 1000, false};

	must_open(&store, directory, "unknown");
	must_open(&other, directory, "unknown");
	put(&store, bytes("old"), bytes("v"));
	CHECK_STATUS(ZARIS_OK, get(&other, bytes("old"))->status);
	set_fault(HEADER_EIO, 1);
	operation = put(&store, bytes("new"), bytes("x"));
	CHECK_STATUS(ZARIS_OUTCOME_UNKNOWN, operation->status);
	CHECK(strstr(operation->error_text, "durable") != NULL);
	CHECK_INT(0, times);
	set_fault(NO_FAULT, 0);
	CHECK(same_bytes(get(&other, bytes("old"))->result, bytes("v")));
	CHECK_STATUS(ZARIS_OK, put_if(&store, bytes("old"), bytes("w"), ZARIS_IF_PRESENT, 0)->status);
	CHECK(same_bytes(get(&other, bytes("old"))->result, bytes("w")));

	/* With attempts left it is tried again, and then the answer is known. */
	zaris_client_set_policy(store.client, &policy);
	set_fault(HEADER_EIO, 1);
	operation = put_if(&store, bytes("old"), bytes("z"), ZARIS_IF_PRESENT, 0);
	CHECK_STATUS(ZARIS_OK, operation->status);
	CHECK_INT(2, operation->attempts);
	set_fault(NO_FAULT, 0);
	close_store(&other);
	close_store(&store);
}

/* Reads that stand among writes have nothing to do with a full disk. */
TEST(reads_among_failing_writes)
{
	Store			store;
	ZarisOperation *operations[5];

	must_open(&store, directory, "reads");
	put(&store, bytes("a"), bytes("v"));
	for (int i = 0; i < 5; i++)
	{
		bool is_read = i % 2 == 1;

		operations[i] = new_operation(&store, is_read ? ZARIS_OP_GET : ZARIS_OP_PUT, bytes("a"));
		operations[i]->value = bytes("w");
		operations[i]->precondition = ZARIS_IF_PRESENT;
		operations[i]->want = ZARIS_WANT_VALUE;
		zaris_batch_submit(store.batch, operations[i]);
	}
	set_fault(PAGES_ENOSPC, 1);
	wait_store(&store);
	set_fault(NO_FAULT, 0);
	for (int i = 0; i < 5; i++)
		CHECK_STATUS(i % 2 == 1 ? ZARIS_OK : ZARIS_OUT_OF_STORAGE, operations[i]->status);
	CHECK(same_bytes(operations[1]->result, bytes("v")));
	CHECK(same_bytes(operations[3]->result, bytes("v")));
	close_store(&store);
}

/* No address space for a larger map: the write fails, the environment is opened again with a map that fits. */
TEST(no_address_space)
{
	ZarisLmdbTuning usual = zaris_lmdb_tuning;
	char		   *value = calloc(1, 6 * 1024 * 1024);
	Store			store;
	ZarisOperation *operation;

	zaris_lmdb_tuning.map_size = 2 * 1024 * 1024;
	must_open(&store, directory, "maplimit");
	put(&store, bytes("a"), bytes("v"));
	fault = MAP_ENOMEM;
	map_limit = 4 * 1024 * 1024;
	operation = put(&store, bytes("large"), (ZarisBytes){value, 6 * 1024 * 1024});
	CHECK_STATUS(ZARIS_NO_MEMORY, operation->status);
	CHECK(strstr(operation->error_text, "could not enlarge the map") != NULL);
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("a"))->status);
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("b"), bytes("v"))->status);
	fault = NO_FAULT;
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("large"), (ZarisBytes){value, 6 * 1024 * 1024})->status);
	close_store(&store);

	/* A large map from the start may be refused as well; a small one will do. */
	fault = MAP_ENOMEM;
	map_limit = 64 * 1024 * 1024;
	zaris_lmdb_tuning.map_size = (size_t) 1024 * 1024 * 1024;
	must_open(&store, directory, "maplimit");
	CHECK_STATUS(ZARIS_OK, get(&store, bytes("large"))->status);
	close_store(&store);
	fault = NO_FAULT;
	zaris_lmdb_tuning = usual;
	free(value);
}

/* A store that cannot be made leaves nothing behind that looks like one. */
TEST(a_store_that_cannot_be_made)
{
	Store store;

	for (int n = 0; n < 6; n++)
	{
		bool opened;

		set_fault(n % 2 == 0 ? CREATE_ENOSPC : SYNC_EIO, 1 + n / 2);
		opened = open_store(&store, directory, "made");
		if (n == 0)
			CHECK(!opened && strstr(store.problem, "No space left on device") != NULL);
		set_fault(NO_FAULT, 0);
		if (opened)
			close_store(&store);
		else
		{
			CHECK(access(path_of(directory, "made"), F_OK) != 0);
			CHECK(access(path_of(directory, ".made.new"), F_OK) != 0);
		}
	}
	must_open(&store, directory, "made");
	CHECK_STATUS(ZARIS_OK, put(&store, bytes("k"), bytes("v"))->status);
	close_store(&store);
}

/* Fill a disk until it is full, really. Everything that was acknowledged is there, and room that is made is used. */
static void
fill_disk(const char *disk)
{
	char	   *value = malloc(20000);
	char		key[16];
	int			n = 0;
	Store		store;
	ZarisStatus status;

	memset(value, 'x', 20000);
	must_open(&store, disk, "full");
	while ((status = put(&store, numbered(key, n), (ZarisBytes){value, 20000})->status) == ZARIS_OK && n < 10000)
	{
		zaris_batch_reset(store.batch);
		n++;
	}
	CHECK_STATUS(ZARIS_OUT_OF_STORAGE, status);
	CHECK(n > 50);
	close_store(&store);
	must_open(&store, disk, "full");
	for (int i = 0; i < n; i++)
	{
		CHECK(same_bytes(get(&store, numbered(key, i))->result, (ZarisBytes){value, 20000}));
		zaris_batch_reset(store.batch);
	}
	for (int i = 0; i < 20; i++)
		CHECK_STATUS(ZARIS_OK, delete_if(&store, numbered(key, i), ZARIS_IF_PRESENT, 0)->status);
	for (int i = 0; i < 5; i++)
		CHECK_STATUS(ZARIS_OK, put(&store, numbered(key, i), (ZarisBytes){value, 20000})->status);
	close_store(&store);
	free(value);
}

TEST(a_full_disk)
{
	char *disk = path_of(directory, "disk");

	mkdir(disk, 0700);
	if (geteuid() != 0 || mount("tmpfs", disk, "tmpfs", 0, "size=4m") != 0)
	{
		printf("# no small disk can be mounted here: left out\n");
		return;
	}
	fill_disk(disk);
	if (umount(disk) != 0)
		perror("umount");
}

/* Directories that others own; for root everything is allowed, so a child becomes somebody else. */
static int
open_as_nobody(bool exists)
{
	Store				 store;
	const struct passwd *nobody = getpwnam("nobody");

	if (geteuid() == 0 && (nobody == NULL || setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 ||
						   setuid(nobody->pw_uid) != 0))
		return 3;
	if (open_store(&store, directory, exists ? "owned" : "denied"))
		return 1;
	return strstr(store.problem, "Permission denied") != NULL ? 0 : 2;
}

TEST(directories_of_others)
{
	Store store;

	must_open(&store, directory, "owned");
	close_store(&store);
	chmod(directory, 0555);
	chmod(path_of(directory, "owned/lock.mdb"), 0400);
	for (int i = 0; i < 2; i++)
	{
		pid_t child;

		fflush(NULL);
		child = fork();
		if (child == 0)
			_exit(open_as_nobody(i == 1));
		CHECK_INT(0, wait_child(child));
	}
	chmod(directory, 0700);
}

int
main(void)
{
	directory = make_test_directory();
	RUN(pages_that_cannot_be_written);
	RUN(a_header_that_cannot_be_written);
	RUN(reads_among_failing_writes);
	RUN(no_address_space);
	RUN(a_store_that_cannot_be_made);
	RUN(directories_of_others);
	RUN(a_full_disk);
	remove_tree(test_directory);
	return test_end();
}
