/*
 * datafile.c
 *	  Looks whether an LMDB data file is whole (datafile.h).
 *
 * The file's pages 0 and 1 are the headers ("meta pages"); transaction N writes header N % 2, and the one with the
 * larger transaction id is in force.  It names the last page in use.  A file that reaches as far is whole.
 *
 * A shorter one may still be: pages that a transaction took and gave back again are never written, so the file may end
 * before them.  They are then in the list of free pages, a B+tree of its own in the same file.  So the pages
 * behind the end are counted in that list: all of them must be there.
 *
 *		free tree:	branch page -> ... -> leaf page, entries { transaction id -> n, page 1, ... page n }
 *					(a long list lies in pages of its own, named by the entry)
 *
 * The layouts below are LMDB's (data version 1), in the machine's own byte order and width, as it writes them.
 */
#include "stores/lmdb/datafile.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC		 0xBEEFC0DEu
#define DATA_VERSION 1
#define MIN_PAGE	 256
#define MAX_PAGE	 0x10000
#define MAX_DEPTH	 32
#define NO_PAGE		 SIZE_MAX
#define CHECK_TRIES	 10

#define PAGE_BRANCH 0x01
#define PAGE_LEAF	0x02
#define PAGE_META	0x08
#define NODE_BIG	0x01 /* the data is the number of the page where it begins */

typedef struct PageHeader
{
	size_t	 number;
	uint16_t pad;
	uint16_t flags;
	uint16_t lower; /* end of the node offsets, which follow this header */
	uint16_t upper;
} PageHeader;

typedef struct Tree
{
	uint32_t pad; /* free tree: the page size */
	uint16_t flags;
	uint16_t depth;
	size_t	 branch_pages;
	size_t	 leaf_pages;
	size_t	 overflow_pages;
	size_t	 entries;
	size_t	 root;
} Tree;

typedef struct Meta
{
	uint32_t magic;
	uint32_t version;
	void	*address;
	size_t	 map_size;
	Tree	 free_pages;
	Tree	 main;
	size_t	 last_page;
	size_t	 transaction;
} Meta;

typedef struct NodeHeader
{
	uint16_t low; /* leaf: data size; branch: page number, with flags as its top on 64 bits */
	uint16_t high;
	uint16_t flags;
	uint16_t key_size;
} NodeHeader;

typedef enum Verdict
{
	WHOLE,
	CUT,
	NOT_LMDB,
	OTHER_VERSION,
	DAMAGED,
	UNREADABLE /* errno tells */
} Verdict;

typedef struct File
{
	int	   fd;
	size_t page_size;
	size_t n_pages;	  /* whole pages that are there */
	size_t last_page; /* that should be there */
	size_t missing;	  /* pages behind the end that the free list names */
	size_t budget;	  /* pages that may still be read: a damaged tree must not go round in circles */
} File;

/* size bytes at an offset. False: not all of them are there (errno 0), or an error. */
static bool
read_at(int fd, void *to, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size)
	{
		ssize_t n = pread(fd, (char *) to + done, size - done, (off_t) (offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = 0;
			return false;
		}
		done += (size_t) n;
	}
	return true;
}

static Verdict
read_meta(int fd, uint64_t offset, Meta *meta)
{
	struct
	{
		PageHeader header;
		Meta	   meta;
	} page;

	if (!read_at(fd, &page, sizeof(page), offset))
	{
		if (errno != 0)
			return UNREADABLE;
		return offset == 0 ? NOT_LMDB : CUT;
	}
	if ((page.header.flags & PAGE_META) == 0 || page.meta.magic != MAGIC)
		return offset == 0 ? NOT_LMDB : DAMAGED;
	if (page.meta.version != DATA_VERSION)
		return OTHER_VERSION;
	*meta = page.meta;
	return WHOLE;
}

/* The header in force. */
static Verdict
read_newest_meta(int fd, Meta *newest)
{
	Meta	 other;
	uint32_t page_size;
	Verdict	 verdict = read_meta(fd, 0, newest);

	if (verdict != WHOLE)
		return verdict;

	page_size = newest->free_pages.pad;
	if (page_size < MIN_PAGE || page_size > MAX_PAGE || (page_size & (page_size - 1)) != 0)
		return DAMAGED;
	verdict = read_meta(fd, page_size, &other);
	if (verdict != WHOLE)
		return verdict;
	if (other.free_pages.pad != page_size)
		return DAMAGED;
	if (other.transaction > newest->transaction)
		*newest = other;
	return newest->last_page >= 1 && newest->last_page < SIZE_MAX / page_size ? WHOLE : DAMAGED;
}

/* Count the pages behind the end in one list of n page numbers that lies at an offset in the file. */
static bool
count_list(File *file, uint64_t offset, size_t size)
{
	size_t numbers[512];
	size_t left;

	if (size < sizeof(size_t) || !read_at(file->fd, &left, sizeof(left), offset))
		return false;
	if (left > size / sizeof(size_t) - 1)
		return false;

	offset += sizeof(size_t);
	while (left > 0)
	{
		size_t n = left < 512 ? left : 512;

		if (!read_at(file->fd, numbers, n * sizeof(size_t), offset))
			return false;
		for (size_t i = 0; i < n; i++)
		{
			if (numbers[i] >= file->n_pages && numbers[i] <= file->last_page)
				file->missing++;
		}
		offset += n * sizeof(size_t);
		left -= n;
	}
	return true;
}

/* One entry of a leaf: its list lies in the leaf, or in pages of its own. */
static bool
count_entry(File *file, size_t page, size_t offset, const NodeHeader *node, const char *bytes)
{
	size_t size = (size_t) node->low | (size_t) node->high << 16;
	size_t data = offset + sizeof(NodeHeader) + node->key_size;
	size_t first;

	if ((node->flags & NODE_BIG) == 0)
		return data + size <= file->page_size && count_list(file, (uint64_t) page * file->page_size + data, size);

	if (data + sizeof(first) > file->page_size)
		return false;
	memcpy(&first, bytes + data, sizeof(first));
	if (first >= file->n_pages)
		return false;
	return count_list(file, (uint64_t) first * file->page_size + sizeof(PageHeader), size);
}

/* The page that a branch's node leads to. The flags are the number's top where page numbers have the room for it. */
static size_t
child_of(const NodeHeader *node)
{
	uint64_t number = (uint64_t) node->low | (uint64_t) node->high << 16;

	if (sizeof(size_t) > 4)
		number |= (uint64_t) node->flags << 32;
	return (size_t) number;
}

/* Count in one page of the free tree and what lies below it. False: the tree is not whole. */
static bool
count_page(File *file, size_t page, int depth)
{
	char	  *bytes;
	PageHeader header;
	size_t	   n_nodes;
	bool	   good;

	if (depth > MAX_DEPTH || page >= file->n_pages || file->budget-- == 0)
		return false;
	bytes = malloc(file->page_size);
	if (bytes == NULL)
		return false;

	good = read_at(file->fd, bytes, file->page_size, (uint64_t) page * file->page_size);
	memcpy(&header, bytes, sizeof(header));
	good = good && header.number == page && (header.flags & (PAGE_BRANCH | PAGE_LEAF)) != 0 &&
		   header.lower >= sizeof(header) && header.lower <= file->page_size;
	n_nodes = good ? (header.lower - sizeof(header)) / sizeof(uint16_t) : 0;

	for (size_t i = 0; good && i < n_nodes; i++)
	{
		NodeHeader node;
		uint16_t   offset;

		memcpy(&offset, bytes + sizeof(header) + i * sizeof(offset), sizeof(offset));
		good = (size_t) offset + sizeof(node) <= file->page_size;
		if (!good)
			break;
		memcpy(&node, bytes + offset, sizeof(node));
		if ((header.flags & PAGE_LEAF) != 0)
			good = count_entry(file, page, offset, &node, bytes);
		else
			good = count_page(file, child_of(&node), depth + 1);
	}
	free(bytes);
	return good;
}

static Verdict
judge(int fd, const Meta *meta)
{
	File		file = {.fd = fd, .page_size = meta->free_pages.pad, .last_page = meta->last_page};
	struct stat status;

	/* Asked after the header was read: what the header names was written before it. */
	if (fstat(fd, &status) != 0)
		return UNREADABLE;
	file.n_pages = (size_t) ((uint64_t) status.st_size / file.page_size);
	if (file.n_pages > meta->last_page)
		return WHOLE;

	file.budget = file.n_pages;
	if (meta->free_pages.root == NO_PAGE || !count_page(&file, meta->free_pages.root, 1))
		return CUT;
	return file.missing == meta->last_page + 1 - file.n_pages ? WHOLE : CUT;
}

/*
 * A file that others write to changes while it is read.  The pages of a state are left alone until the next but one,
 * so a verdict holds if the header is still the same afterwards; else it is made again.  A file that never stands
 * still is in use elsewhere, and was found good there.
 */
static Verdict
judge_steadily(int fd)
{
	for (int i = 0; i < CHECK_TRIES; i++)
	{
		Meta before,
			after;
		Verdict verdict = read_newest_meta(fd, &before);

		if (verdict != WHOLE)
			return verdict;
		verdict = judge(fd, &before);
		if (verdict == WHOLE || verdict == UNREADABLE)
			return verdict;
		if (read_newest_meta(fd, &after) != WHOLE || after.transaction == before.transaction)
			return verdict;
	}
	return WHOLE;
}

bool
zaris_lmdb_datafile_check(int fd, const char *name, ZarisLmdbProblem *problem)
{
	switch (judge_steadily(fd))
	{
		case WHOLE:
			break;
		case CUT:
			return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
									  "the data file of embedded store \"%s\" is cut off: pages in use are missing",
									  name);
		case NOT_LMDB:
			return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
									  "the data file of embedded store \"%s\" is not an LMDB file", name);
		case OTHER_VERSION:
			return zaris_lmdb_problem(problem, ZARIS_INVALID_REQUEST,
									  "the data file of embedded store \"%s\" was written by another version of LMDB",
									  name);
		case DAMAGED:
			return zaris_lmdb_problem(problem, ZARIS_PROTOCOL_ERROR,
									  "the data file of embedded store \"%s\" has a damaged header", name);
		case UNREADABLE:
			return zaris_lmdb_problem_code(problem, errno,
										   "could not read the data file of embedded store \"%s\"", name);
	}
	return true;
}
