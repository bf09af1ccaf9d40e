/*
 * joingroup.c
 *	  A group of outer rows of the batched join, and the Gets of their keys.
 */
#include "postgres.h"

#include "backend/wait.h"
#include "common/hashfn.h"
#include "fdw/gets.h"
#include "fdw/joingroup.h"
#include "utils/memutils.h"

/* While a group is read, what was asked for is sent after so many keys: the nodes work meanwhile. */
#define KEYS_A_FLUSH 128

/* A key of the group. */
typedef struct GroupKey
{
	ZarisBytes		key; /* first: what the hash table compares */
	ZarisOperation *operation;
} GroupKey;

static uint32
hash_key(const void *key, Size size)
{
	const ZarisBytes *bytes = key;

	return hash_bytes((const unsigned char *) bytes->data, (int) bytes->len);
}

static int
compare_keys(const void *a, const void *b, Size size)
{
	const ZarisBytes *left = a;
	const ZarisBytes *right = b;

	return left->len == right->len ? memcmp(left->data, right->data, left->len) : 1;
}

void
zaris_join_group_init(ZarisJoinGroup *group, const ZarisFetch *fetch, int most_rows, MemoryContext home)
{
	memset(group, 0, sizeof(*group));
	group->fetch = fetch;
	group->home = home;
	group->context = AllocSetContextCreate(home, "zaris_fdw join group", ALLOCSET_DEFAULT_SIZES);
	group->rows = MemoryContextAllocHuge(home, most_rows * sizeof(ZarisJoinRow));
	group->n_allocated = 256;
	group->operations = MemoryContextAlloc(home, group->n_allocated * sizeof(ZarisOperation *));
}

void
zaris_join_group_begin(ZarisJoinGroup *group, ZarisSession *session)
{
	HASHCTL control = {
		.keysize = sizeof(ZarisBytes),
		.entrysize = sizeof(GroupKey),
		.hash = hash_key,
		.match = compare_keys,
		.hcxt = group->context,
	};

	group->session = session;
	if (group->guard == NULL)
		group->guard = zaris_guard_batch(session, group->home);
	else
		zaris_batch_reset(group->guard->batch);
	MemoryContextReset(group->context);
	group->distinct =
		hash_create("zaris_fdw join keys", 256, &control, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	group->n_rows = group->n_operations = group->n_distinct = 0;
	group->bytes = 0;
}

/* The operation for a key, asked for if it is new to the group. */
static ZarisOperation *
operation_for(ZarisJoinGroup *group, const StringInfoData *text)
{
	ZarisBytes key = {text->data, text->len};
	bool	   found;
	GroupKey  *entry = hash_search(group->distinct, &key, HASH_ENTER, &found);
	char	  *data;

	if (found)
		return entry->operation;

	/* the entry's key must live as long as the group: the same bytes, elsewhere */
	data = MemoryContextAlloc(group->context, Max(text->len, 1));
	memcpy(data, text->data, text->len);
	entry->key.data = data;
	entry->operation = zaris_get_submit(group->guard, group->fetch, entry->key);
	group->bytes += text->len + sizeof(GroupKey) + sizeof(ZarisOperation) + group->fetch->n_fields * sizeof(ZarisField);
	if (++group->n_distinct % KEYS_A_FLUSH == 0)
		zaris_wait_poll(group->guard);
	return entry->operation;
}

static void
append_operation(ZarisJoinGroup *group, ZarisOperation *operation)
{
	if (group->n_operations == group->n_allocated)
	{
		group->n_allocated *= 2;
		group->operations = repalloc_huge(group->operations, group->n_allocated * sizeof(ZarisOperation *));
	}
	group->operations[group->n_operations++] = operation;
}

void
zaris_join_group_add(ZarisJoinGroup *group, TupleTableSlot *outer, ZarisLookup *lookup, StringInfo scratch)
{
	ZarisJoinRow *row = &group->rows[group->n_rows];
	MemoryContext caller;

	row->first = group->n_operations;
	while (zaris_lookup_next(lookup, scratch))
		append_operation(group, operation_for(group, scratch));
	row->n_keys = group->n_operations - row->first;

	caller = MemoryContextSwitchTo(group->context);
	row->tuple = ExecCopySlotMinimalTuple(outer);
	MemoryContextSwitchTo(caller);
	group->bytes += row->tuple->t_len + row->n_keys * sizeof(ZarisOperation *);
	group->n_rows++;
}

void
zaris_join_group_drop(ZarisJoinGroup *group)
{
	group->n_rows = 0;
	if (group->guard == NULL || zaris_batch_is_done(group->guard->batch))
		return; /* kept for the next begin: a rescan should cost nothing */
	zaris_guard_free(group->guard);
	group->guard = NULL;
}
