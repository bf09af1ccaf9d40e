/*
 * batch.c
 *	  Batches: the memory of operations and of what comes of them, and their bookkeeping.
 *
 * Operations come from slabs, all other memory from chunks; a reset keeps some of both, so that a batch in steady use
 * asks malloc for nothing.
 */
#include "client/inside.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE	((size_t) 32 * 1024)
#define KEEP_CHUNKS ((size_t) 1024 * 1024) /* bytes that a reset keeps */
#define KEEP_SLABS	32
#define ALIGNMENT	_Alignof(max_align_t)

/* where a chunk's memory begins, aligned */
#define CHUNK_HEAD ((sizeof(ZarisChunk) + ALIGNMENT - 1) & ~(ALIGNMENT - 1))

static char *
chunk_memory(ZarisChunk *chunk)
{
	return (char *) chunk + CHUNK_HEAD;
}

ZarisBatch *
zaris_batch_create(ZarisClient *client)
{
	ZarisBatch *batch = calloc(1, sizeof(*batch));

	if (batch == NULL)
		return NULL;
	batch->client = client;
	batch->deadline_us = ZARIS_NO_DEADLINE;
	batch->wake_at_us = ZARIS_FAR_FUTURE;
	batch->queue_end = &batch->queue;
	zaris_link_init(&batch->waiting);
	zaris_link_init(&batch->timed);
	zaris_link_init(&batch->all);
	zaris_link_add(&client->batches, &batch->all);
	return batch;
}

ZarisOperation *
zaris_batch_operation(ZarisBatch *batch)
{
	ZarisSlab	   *slab = batch->slab;
	ZarisOperation *operation;

	if (slab == NULL || slab->used == ZARIS_SLAB_OPERATIONS)
	{
		slab = slab == NULL ? batch->slabs : slab->next;
		if (slab == NULL)
		{
			slab = malloc(sizeof(*slab));
			if (slab == NULL)
				return NULL;
			slab->next = NULL;
			if (batch->slab != NULL)
				batch->slab->next = slab;
			else
				batch->slabs = slab;
		}
		slab->used = 0;
		batch->slab = slab;
	}
	operation = &slab->operations[slab->used++];
	memset(operation, 0, sizeof(*operation));
	operation->node = ZARIS_NO_NODE;
	operation->target = ZARIS_NO_NODE;
	operation->expiry_ms = ZARIS_NO_EXPIRY;
	return operation;
}

/* Take the next chunk that is large enough into use; small ones before it are left out until the reset. */
static bool
next_chunk(ZarisBatch *batch, size_t size)
{
	ZarisChunk *next = batch->chunk == NULL ? batch->chunks : batch->chunk->next;
	ZarisChunk *chunk;

	if (next != NULL && next->size >= size)
	{
		batch->chunk = next;
		batch->chunk_used = 0;
		return true;
	}
	if (size < CHUNK_SIZE)
		size = CHUNK_SIZE;
	chunk = malloc(CHUNK_HEAD + size);
	if (chunk == NULL)
		return false;
	chunk->size = size;
	chunk->next = next;
	if (batch->chunk == NULL)
		batch->chunks = chunk;
	else
		batch->chunk->next = chunk;
	batch->chunk = chunk;
	batch->chunk_used = 0;
	return true;
}

void *
zaris_batch_alloc(ZarisBatch *batch, size_t size)
{
	void *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (size == 0)
		size = ALIGNMENT; /* a pointer of its own: empty is not nil (I9) */

	if (batch->chunk == NULL || size > batch->chunk->size - batch->chunk_used)
	{
		if (!next_chunk(batch, size))
			return NULL;
	}
	memory = chunk_memory(batch->chunk) + batch->chunk_used;
	batch->chunk_used += size;
	return memory;
}

static void
free_slabs(ZarisSlab *slab)
{
	while (slab != NULL)
	{
		ZarisSlab *next = slab->next;

		free(slab);
		slab = next;
	}
}

static void
free_chunks(ZarisChunk *chunk)
{
	while (chunk != NULL)
	{
		ZarisChunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

/* Keep the first chunks that together stay within the bound: a batch that once held a huge value gives it back. */
static void
trim_chunks(ZarisBatch *batch)
{
	size_t		 kept = 0;
	ZarisChunk **link = &batch->chunks;

	while (*link != NULL)
	{
		ZarisChunk *chunk = *link;

		if (kept + chunk->size <= KEEP_CHUNKS)
		{
			kept += chunk->size;
			link = &chunk->next;
		}
		else
		{
			*link = chunk->next;
			free(chunk);
		}
	}
}

static void
trim_slabs(ZarisBatch *batch)
{
	ZarisSlab *slab = batch->slabs;

	for (int i = 1; slab != NULL; i++, slab = slab->next)
	{
		if (i == KEEP_SLABS)
		{
			free_slabs(slab->next);
			slab->next = NULL;
		}
		slab->used = 0;
	}
}

void
zaris_batch_reset(ZarisBatch *batch)
{
	ZARIS_ASSERT(batch->pending == 0);
	if (batch->pending > 0)
		zaris_client_detach(batch->client, batch, false);
	trim_slabs(batch);
	trim_chunks(batch);
	batch->slab = NULL;
	batch->chunk = NULL;
	batch->chunk_used = 0;
}

static void
release_batch(ZarisBatch *batch, bool broken)
{
	if (batch == NULL)
		return;
	if (batch->pending > 0)
		zaris_client_detach(batch->client, batch, broken);
	zaris_link_remove(&batch->all);
	zaris_link_remove(&batch->waiting);
	zaris_link_remove(&batch->timed);
	free_slabs(batch->slabs);
	free_chunks(batch->chunks);
	free(batch);
}

void
zaris_batch_free(ZarisBatch *batch)
{
	release_batch(batch, false);
}

void
zaris_batch_abandon(ZarisBatch *batch)
{
	release_batch(batch, true);
}

/* Stand in client->timed if and only if there is something that the deadline could end. */
static void
arm_deadline(ZarisBatch *batch)
{
	bool wanted = batch->pending > 0 && batch->deadline_us != ZARIS_NO_DEADLINE;

	if (!wanted)
		zaris_link_remove(&batch->timed);
	else if (zaris_link_is_alone(&batch->timed))
		zaris_link_add(&batch->client->timed, &batch->timed);
}

void
zaris_batch_set_deadline(ZarisBatch *batch, uint64_t deadline_us)
{
	batch->deadline_us = deadline_us;
	arm_deadline(batch);
}

uint64_t
zaris_batch_deadline(const ZarisBatch *batch)
{
	return batch->deadline_us;
}

void
zaris_batch_submit(ZarisBatch *batch, ZarisOperation *operation)
{
	ZarisClient *client = batch->client;

	ZARIS_ASSERT(operation->state == ZARIS_OPERATION_NEW);
	if (operation->state != ZARIS_OPERATION_NEW)
		return;

	/* The time is for messages; reading the clock for each of a million operations a second would cost more. */
	if (batch->pending == 0 || (batch->submits & 63) == 0)
		zaris_client_read_clock(client);
	batch->submits++;
	batch->pending++;
	if (zaris_operation_is_write(operation))
		batch->writes++;
	if (batch->pending == 1)
		arm_deadline(batch);

	operation->batch = batch;
	operation->started_us = client->now_us;
	operation->state = ZARIS_OPERATION_QUEUED;
	zaris_client_submit(client, operation);
}

void
zaris_batch_finished_one(ZarisBatch *batch, const ZarisOperation *operation)
{
	ZARIS_ASSERT(batch->pending > 0);
	batch->pending--;
	if (zaris_operation_is_write(operation))
		batch->writes--;
	if (batch->pending == 0)
		arm_deadline(batch);
}

/* Put an operation into the queue; its wake_at_us and awaits_refresh say what for. */
void
zaris_batch_enqueue(ZarisBatch *batch, ZarisOperation *operation)
{
	operation->state = ZARIS_OPERATION_QUEUED;
	operation->next = NULL;
	*batch->queue_end = operation;
	batch->queue_end = &operation->next;
	if (operation->wake_at_us < batch->wake_at_us)
		batch->wake_at_us = operation->wake_at_us;
	if (operation->awaits_refresh)
		batch->awaits_refresh = true;
	if (zaris_link_is_alone(&batch->waiting))
		zaris_link_add(&batch->client->waiting, &batch->waiting);
}

/* Empty the queue: whoever takes it puts back what still has to wait. */
ZarisOperation *
zaris_batch_take_queue(ZarisBatch *batch)
{
	ZarisOperation *queue = batch->queue;

	batch->queue = NULL;
	batch->queue_end = &batch->queue;
	batch->wake_at_us = ZARIS_FAR_FUTURE;
	batch->awaits_refresh = false;
	zaris_link_remove(&batch->waiting);
	return queue;
}

bool
zaris_batch_is_done(const ZarisBatch *batch)
{
	return batch->pending == 0;
}

int
zaris_batch_pending(const ZarisBatch *batch)
{
	return batch->pending;
}

ZarisClient *
zaris_batch_client(const ZarisBatch *batch)
{
	return batch->client;
}
