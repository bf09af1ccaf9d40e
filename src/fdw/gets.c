/*
 * gets.c
 *	  Gets of many keys: in pipelines, in the order of the keys.
 */
#include "postgres.h"

#include "backend/error.h"
#include "backend/wait.h"
#include "fdw/gets.h"
#include "utils/memutils.h"

#define FIRST_BATCH 128
#define BATCH_BYTES (16 * 1024 * 1024) /* of values, where batches stop growing */

typedef struct GetBatch
{
	ZarisGuard		*guard; /* NULL = none yet, or given up while in flight */
	MemoryContext	 keys;
	ZarisOperation **operations;
	int				 n_operations;
	int				 at; /* the next one to be looked at */
} GetBatch;

struct ZarisGets
{
	const ZarisTable *table;
	const ZarisFetch *fetch;
	ZarisLookup		 *lookup;
	ZarisSession	 *session;
	MemoryContext	  context;
	GetBatch		  batches[2];
	int				  current;	 /* whose rows are being used; the other one is on its way */
	int				  limit;	 /* keys of the next batch */
	bool			  ahead;	 /* ask for the next batch before this one is used */
	bool			  exhausted; /* the lookup has no more keys */
	uint64			  skipped;
};

ZarisGets *
zaris_gets_create(const ZarisTable *table, const ZarisFetch *fetch, ZarisLookup *lookup)
{
	ZarisGets *gets = palloc0(sizeof(*gets));

	gets->table = table;
	gets->fetch = fetch;
	gets->lookup = lookup;
	gets->context = CurrentMemoryContext;
	gets->exhausted = true; /* until it is started */
	return gets;
}

void
zaris_gets_start(ZarisGets *gets, ZarisSession *session, int hint)
{
	gets->session = session;
	gets->current = 0;
	gets->limit = Min(hint > 0 ? hint : FIRST_BATCH, gets->table->batch_size);
	gets->ahead = hint == 0;
	gets->exhausted = false;
}

static void
raise_out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while making requests to the store.")));
}

/* The array in which a hash operation names its fields and finds their values. */
static ZarisField *
make_fields(const ZarisFetch *fetch, ZarisBatch *batch)
{
	ZarisField *fields = zaris_batch_alloc(batch, fetch->n_fields * sizeof(ZarisField));

	if (fields == NULL)
		raise_out_of_memory();
	for (int i = 0; i < fetch->n_fields; i++)
		fields[i] = (ZarisField){.name = fetch->field_names[i]};
	return fields;
}

ZarisOperation *
zaris_get_submit(ZarisGuard *guard, const ZarisFetch *fetch, ZarisBytes key)
{
	ZarisOperation *operation = zaris_batch_operation(guard->batch);

	if (operation == NULL)
		raise_out_of_memory();
	operation->kind = ZARIS_OP_GET;
	operation->record = fetch->table->record;
	operation->key = key;
	operation->want = fetch->want;
	if (fetch->n_fields > 0)
	{
		operation->fields = make_fields(fetch, guard->batch);
		operation->n_fields = fetch->n_fields;
	}
	zaris_batch_submit(guard->batch, operation);
	return operation;
}

static void
submit_get(const ZarisGets *gets, GetBatch *batch, StringInfo key)
{
	char *data = MemoryContextAlloc(batch->keys, Max(key->len, 1));

	memcpy(data, key->data, key->len);
	batch->operations[batch->n_operations++] =
		zaris_get_submit(batch->guard, gets->fetch, (ZarisBytes){data, key->len});
}

static void
prepare_batch(ZarisGets *gets, GetBatch *batch)
{
	if (batch->keys == NULL)
	{
		batch->keys = AllocSetContextCreate(gets->context, "zaris_fdw keys", ALLOCSET_SMALL_SIZES);
		batch->operations = MemoryContextAlloc(gets->context, gets->table->batch_size * sizeof(ZarisOperation *));
	}
	if (batch->guard == NULL)
		batch->guard = zaris_guard_batch(gets->session, gets->context);
	else
		zaris_batch_reset(batch->guard->batch);
	MemoryContextReset(batch->keys);
	batch->n_operations = batch->at = 0;
}

/* Submit the next keys, without waiting. The batch is empty when there are none. */
static void
send_batch(ZarisGets *gets, GetBatch *batch)
{
	StringInfoData key;

	batch->n_operations = batch->at = 0;
	if (gets->exhausted)
		return;
	prepare_batch(gets, batch);
	initStringInfo(&key);
	while (batch->n_operations < gets->limit)
	{
		if (!zaris_lookup_next(gets->lookup, &key))
		{
			gets->exhausted = true;
			break;
		}
		submit_get(gets, batch, &key);
	}
	pfree(key.data);
}

size_t
zaris_get_bytes(const ZarisOperation *operation)
{
	size_t bytes = operation->result.len;

	for (int i = 0; i < operation->n_fields; i++)
		bytes += operation->fields[i].value.len;
	return bytes;
}

/* How many keys the next batch may have, after this one. */
static int
next_limit(const ZarisGets *gets, const GetBatch *batch)
{
	size_t bytes = 0;

	for (int i = 0; i < batch->n_operations; i++)
		bytes += zaris_get_bytes(batch->operations[i]);
	if (bytes > BATCH_BYTES)
		return Max(1, gets->limit / 2);
	return bytes > BATCH_BYTES / 2 ? gets->limit : Min(gets->limit * 2, gets->table->batch_size);
}

/* Go on to the batch that is on its way, or to a new one. False: there are no more keys. */
static bool
next_batch(ZarisGets *gets)
{
	GetBatch *batch;

	gets->current = 1 - gets->current;
	batch = &gets->batches[gets->current];
	if (batch->n_operations == 0)
		send_batch(gets, batch);
	if (batch->n_operations == 0)
		return false;
	zaris_wait_batch(batch->guard);
	if (gets->exhausted)
		return true;
	gets->limit = next_limit(gets, batch);
	if (gets->ahead)
	{
		send_batch(gets, &gets->batches[1 - gets->current]);
		zaris_wait_poll(gets->batches[1 - gets->current].guard); /* off they go */
	}
	return true;
}

bool
zaris_get_record(const ZarisOperation *operation, ZarisSession *session, const ZarisTable *table, ZarisRecord *record,
				 uint64 *skipped)
{
	if (operation->status == ZARIS_NOT_FOUND)
		return false;
	if (operation->status == ZARIS_WRONG_TYPE)
	{
		(*skipped)++;
		return false; /* a key of another kind is no row */
	}
	if (operation->status != ZARIS_OK)
		zaris_raise_operation(session, operation, table->name);
	*record = (ZarisRecord){
		.key = operation->key,
		.value = operation->result,
		.fields = operation->fields,
		.n_fields = operation->n_fields,
		.version = operation->version,
		.has_version = operation->has_version,
		.expiry_ms = operation->expiry_ms,
	};
	return true;
}

bool
zaris_gets_next(ZarisGets *gets, ZarisRecord *record)
{
	for (;;)
	{
		GetBatch *batch = &gets->batches[gets->current];

		if (batch->at == batch->n_operations)
		{
			batch->n_operations = batch->at = 0;
			if (!next_batch(gets))
				return false;
			continue;
		}
		if (zaris_get_record(batch->operations[batch->at++], gets->session, gets->table, record, &gets->skipped))
			return true;
	}
}

/* What is in flight is given up: its answers are dropped when they come. */
void
zaris_gets_stop(ZarisGets *gets)
{
	for (int i = 0; i < lengthof(gets->batches); i++)
	{
		GetBatch *batch = &gets->batches[i];

		batch->n_operations = batch->at = 0;
		if (batch->guard == NULL || zaris_batch_is_done(batch->guard->batch))
			continue; /* kept: a nested loop's inner side starts thousands of times */
		zaris_guard_free(batch->guard);
		batch->guard = NULL;
	}
	gets->exhausted = true;
}

void
zaris_gets_free(ZarisGets *gets)
{
	zaris_gets_stop(gets);
	for (int i = 0; i < lengthof(gets->batches); i++)
	{
		if (gets->batches[i].guard != NULL)
			zaris_guard_free(gets->batches[i].guard);
		gets->batches[i].guard = NULL;
	}
}

uint64
zaris_gets_skipped(const ZarisGets *gets)
{
	return gets->skipped;
}
