/*
 * written.c
 *	  The book of the keys that a statement writes: see written.h.
 */
#include "postgres.h"

#include <xxhash.h>

#include "fdw/written.h"
#include "utils/memutils.h"

#define FIRST_SIZE 256 /* entries; grows by itself */

typedef struct WrittenEntry
{
	ZarisFingerprint key;
	void			*writer; /* NULL = the write is done */
	bool			 creates;
	char			 status; /* simplehash's */
} WrittenEntry;

#define SH_PREFIX				entries
#define SH_ELEMENT_TYPE			WrittenEntry
#define SH_KEY_TYPE				ZarisFingerprint
#define SH_KEY					key
#define SH_HASH_KEY(table, key) ((uint32) (key).low)
#define SH_EQUAL(table, a, b)	((a).low == (b).low && (a).high == (b).high)
#define SH_SCOPE				static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct ZarisWritten
{
	EState				 *estate;
	Oid					  serverid;
	entries_hash		 *entries;
	bool				  remember;
	ZarisWritten		 *next;
	MemoryContextCallback forget;
};

/* The books of the statements that run in this backend: as many as statements are nested, so a list will do. */
static ZarisWritten *books = NULL;

/* The statement's memory goes, on whatever path: its book must not be found any more. */
static void
forget_book(void *argument)
{
	ZarisWritten **link = &books;

	while (*link != NULL && *link != argument)
		link = &(*link)->next;
	if (*link != NULL)
		*link = (*link)->next;
}

static ZarisWritten *
find_book(EState *estate, Oid serverid)
{
	for (ZarisWritten *book = books; book != NULL; book = book->next)
	{
		if (book->estate == estate && book->serverid == serverid)
			return book;
	}
	return NULL;
}

ZarisWritten *
zaris_written_open(EState *estate, Oid serverid)
{
	MemoryContext context = estate != NULL ? estate->es_query_cxt : CurrentMemoryContext;
	ZarisWritten *book = estate != NULL ? find_book(estate, serverid) : NULL;

	if (book != NULL)
		return book;
	book = MemoryContextAllocZero(context, sizeof(*book));
	book->estate = estate;
	book->serverid = serverid;
	book->entries = entries_create(context, FIRST_SIZE, NULL);
	if (estate == NULL)
		return book;
	book->next = books;
	books = book;
	book->forget.func = forget_book;
	book->forget.arg = book;
	MemoryContextRegisterResetCallback(context, &book->forget);
	return book;
}

void
zaris_written_remember(ZarisWritten *written)
{
	written->remember = true;
}

/*
 * A collision would skip a row in silence.  At 128 bits it does not happen by chance; the seed is the backend's own, so
 * that whoever chooses keys cannot make it happen.
 */
ZarisFingerprint
zaris_written_fingerprint(ZarisBytes key)
{
	static uint64 seed = 0;
	XXH128_hash_t hash;

	if (seed == 0 && !pg_strong_random(&seed, sizeof(seed)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random bytes")));
	hash = XXH3_128bits_withSeed(key.data, key.len, seed);
	return (ZarisFingerprint){hash.low64, hash.high64};
}

void *
zaris_written_writer(const ZarisWritten *written, ZarisFingerprint key)
{
	WrittenEntry *entry = entries_lookup(written->entries, key);

	return entry != NULL ? entry->writer : NULL;
}

bool
zaris_written_has(const ZarisWritten *written, ZarisFingerprint key)
{
	return entries_lookup(written->entries, key) != NULL;
}

void
zaris_written_begin(ZarisWritten *written, ZarisFingerprint key, void *writer, bool creates)
{
	bool		  found;
	WrittenEntry *entry = entries_insert(written->entries, key, &found);

	Assert(!found || entry->writer == NULL);
	entry->writer = writer;
	entry->creates = creates || (found && entry->creates);
}

void
zaris_written_end(ZarisWritten *written, ZarisFingerprint key)
{
	WrittenEntry *entry;

	if (!written->remember)
	{
		(void) entries_delete(written->entries, key);
		return;
	}
	entry = entries_lookup(written->entries, key);
	if (entry != NULL)
		entry->writer = NULL;
}

bool
zaris_written_created(EState *estate, Oid serverid, ZarisBytes key)
{
	ZarisWritten *book;
	WrittenEntry *entry;

	if (books == NULL)
		return false;
	book = find_book(estate, serverid);
	if (book == NULL)
		return false;
	entry = entries_lookup(book->entries, zaris_written_fingerprint(key));
	return entry != NULL && entry->creates;
}
