/*
 * connection.c
 *	  One connection to one node: see connection.h for its states and its ring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/check.h"
#include "stores/resp/classify.h"
#include "stores/resp/connection.h"

#define MIN_RING 64

static void try_candidate(ZarisConnection *connection, const char *error);

/* the ring */

static ZarisEntry *
ring_at(const ZarisConnection *connection, size_t i)
{
	return &connection->ring[(connection->ring_head + i) & (connection->ring_size - 1)];
}

static bool
ring_grow(ZarisConnection *connection)
{
	size_t		size = connection->ring_size > 0 ? connection->ring_size * 2 : MIN_RING;
	ZarisEntry *ring = malloc(size * sizeof(*ring));

	if (ring == NULL)
		return false;
	for (size_t i = 0; i < connection->ring_count; i++)
		ring[i] = *ring_at(connection, i);
	free(connection->ring);
	connection->ring = ring;
	connection->ring_size = size;
	connection->ring_head = 0;
	return true;
}

static void
ring_pop(ZarisConnection *connection)
{
	ZARIS_ASSERT(connection->ring_count > 0);
	connection->ring_head = (connection->ring_head + 1) & (connection->ring_size - 1);
	connection->ring_count--;
}

static bool
is_sent(const ZarisConnection *connection, const ZarisEntry *entry)
{
	return entry->start < connection->flushed;
}

static void
collector_reset(ZarisCollector *collector)
{
	collector->answer.status = ZARIS_OK;
	collector->answer.outcome = ZARIS_OUTCOME_APPLIED;
	collector->answer.redirect = ZARIS_REDIRECT_NONE;
	collector->answer.slot = -1;
	collector->answer.text = NULL;
	collector->answer.text_len = 0;
	collector->flags = 0;
	collector->garbage = collector->missing = collector->other_kind = collector->unclear = false;
	collector->room = 0;
}

bool
zaris_connection_in_flight(const ZarisConnection *connection)
{
	return connection->ring_count > 0 && is_sent(connection, ring_at(connection, 0));
}

bool
zaris_connection_push(ZarisConnection *connection, const ZarisEntry *entry, size_t mark)
{
	ZarisEntry *slot;

	if (connection->out.failed ||
		(connection->ring_count == connection->ring_size && !ring_grow(connection)))
	{
		connection->out.len = mark;
		connection->out.failed = false;
		return false;
	}
	slot = ring_at(connection, connection->ring_count++);
	*slot = *entry;
	slot->start = connection->flushed + mark;
	slot->end = connection->flushed + connection->out.len;
	slot->seen = 0;
	return true;
}

/* streams */

/* The stream goes. What was composed and not sent stays, and counts from the next stream's beginning. */
static void
drop_stream(ZarisConnection *connection)
{
	for (size_t i = 0; i < connection->ring_count; i++)
	{
		ZarisEntry *entry = ring_at(connection, i);

		ZARIS_ASSERT(!is_sent(connection, entry));
		entry->start -= connection->flushed;
		entry->end -= connection->flushed;
	}
	if (connection->stream != NULL)
		zaris_stream_close(connection->stream);
	if (connection->timer != NULL)
		zaris_timer_stop(connection->timer);
	connection->stream = NULL;
	connection->state = ZARIS_CONNECTION_CLOSED;
	connection->drain = ZARIS_DRAIN_NONE;
	connection->generation++;
	connection->has_setup = false;
	memset(connection->knows_script, 0, sizeof(connection->knows_script));
	connection->flushed = 0;
	connection->login_bytes = 0;
	zaris_reader_reset(&connection->reader);
	collector_reset(&connection->collector);
}

void
zaris_connection_close(ZarisConnection *connection)
{
	ZARIS_ASSERT(!zaris_connection_in_flight(connection));
	drop_stream(connection);
}

/*
 * What a lost connection means for an entry: only if its last byte has left the process can it have been executed, for
 * a server never runs a part of a command.
 */
static ZarisOutcome
outcome_of(const ZarisConnection *connection, const ZarisEntry *entry)
{
	if (connection->stream == NULL || !is_sent(connection, entry))
		return ZARIS_OUTCOME_NOT_SENT;
	if (zaris_stream_sent(connection->stream) < connection->login_bytes + entry->end)
		return ZARIS_OUTCOME_NOT_SENT;
	return ZARIS_OUTCOME_IN_DOUBT;
}

void
zaris_connection_fail(ZarisConnection *connection, ZarisStatus status, bool rejected, bool keep_unsent,
					  const char *text, size_t text_len)
{
	if (text_len >= sizeof(connection->fail_text))
		text_len = sizeof(connection->fail_text) - 1;
	memmove(connection->fail_text, text, text_len);
	connection->fail_text[text_len] = '\0';

	while (connection->ring_count > 0)
	{
		ZarisEntry entry = *ring_at(connection, 0);

		if (keep_unsent && !is_sent(connection, &entry))
			break;
		ring_pop(connection);
		connection->hooks->failed(connection, &entry, status,
								  rejected ? ZARIS_OUTCOME_REJECTED : outcome_of(connection, &entry));
	}
	connection->n_orphans = 0;
	if (connection->ring_count == 0)
		zaris_out_clear(&connection->out);
	drop_stream(connection);
}

static void
fail_text(ZarisConnection *connection, ZarisStatus status, const char *text)
{
	zaris_connection_fail(connection, status, false, false, text, strlen(text));
}

/* Errors of the login are the connection's: nothing of what waits on it was sent. */
static void
fail_by_reply(ZarisConnection *connection, const ZarisReply *reply, ZarisStatus fallback)
{
	const ZarisErrorRule *rule = zaris_classify(reply->data, reply->len);
	ZarisStatus			  status = rule->status == ZARIS_INVALID_REQUEST ? fallback : rule->status;

	zaris_connection_fail(connection, status, (rule->flags & ZARIS_ERROR_EVERYONE) != 0, false,
						  reply->data, reply->len);
}

/* login */

/* Login commands bypass ->out, which holds what waits for the login. */
static bool
write_login(ZarisConnection *connection, ZarisOut *out)
{
	bool ok = !out->failed && zaris_stream_write(connection->stream, out->data, out->len);

	connection->login_bytes += out->len;
	zaris_out_free(out);
	if (!ok)
		fail_text(connection, ZARIS_CONNECT_ERROR, "connection was lost during login");
	return ok;
}

static void
become_ready(ZarisConnection *connection)
{
	connection->state = ZARIS_CONNECTION_READY;
	connection->has_setup = true;
	if (!connection->whole_timeout && connection->timer != NULL)
		zaris_timer_stop(connection->timer);
}

static void
begin_setup(ZarisConnection *connection)
{
	const ZarisConnectionSetup *setup = connection->setup;
	ZarisOut					out = {0};

	connection->setup_replies = 0;
	if (setup->client_name != NULL)
	{
		zaris_out_begin(&out, 3);
		zaris_out_text(&out, "CLIENT");
		zaris_out_text(&out, "SETNAME");
		zaris_out_text(&out, setup->client_name);
		connection->setup_replies++;
	}
	if (setup->database != 0)
	{
		zaris_out_begin(&out, 2);
		zaris_out_text(&out, "SELECT");
		zaris_out_integer(&out, setup->database);
		connection->setup_replies++;
	}
	if (connection->setup_replies == 0)
	{
		become_ready(connection);
		return;
	}
	connection->state = ZARIS_CONNECTION_SETUP;
	write_login(connection, &out);
}

/* AUTH [user] password, or straight on where there is nothing to prove. */
static void
begin_login(ZarisConnection *connection)
{
	const ZarisConnectionSetup *setup = connection->setup;
	ZarisOut					out = {0};

	if (setup->user == NULL && setup->password == NULL)
	{
		begin_setup(connection);
		return;
	}
	zaris_out_begin(&out, setup->user != NULL ? 3 : 2);
	zaris_out_text(&out, "AUTH");
	if (setup->user != NULL)
		zaris_out_text(&out, setup->user);
	zaris_out_text(&out, setup->password != NULL ? setup->password : "");
	connection->state = ZARIS_CONNECTION_LOGIN;
	write_login(connection, &out);
}

static void
login_replied(ZarisConnection *connection, const ZarisReply *reply)
{
	if (reply->type == ZARIS_REPLY_ERROR)
		fail_by_reply(connection, reply, ZARIS_BAD_CREDENTIALS);
	else if (!zaris_reply_equals(reply, "OK"))
		fail_text(connection, ZARIS_PROTOCOL_ERROR, "the reply to AUTH is not one");
	else if (connection->has_setup)
		become_ready(connection);
	else
		begin_setup(connection);
}

/*
 * CLIENT SETNAME is a courtesy that a server or an ACL may refuse; but it is also the first command of a connection
 * without login, so that it meets NOAUTH and a full server first.
 */
static void
setup_replied(ZarisConnection *connection, const ZarisReply *reply)
{
	bool is_select = connection->setup->database != 0 && connection->setup_replies == 1;

	if (reply->type == ZARIS_REPLY_ERROR)
	{
		unsigned flags = zaris_classify(reply->data, reply->len)->flags;

		if (is_select || (flags & (ZARIS_ERROR_EVERYONE | ZARIS_ERROR_CLOSE | ZARIS_ERROR_NO_LOGIN)))
		{
			fail_by_reply(connection, reply, ZARIS_INVALID_REQUEST);
			return;
		}
	}
	else if (!zaris_reply_equals(reply, "OK"))
	{
		fail_text(connection, ZARIS_PROTOCOL_ERROR, "the reply to CLIENT SETNAME or SELECT is not one");
		return;
	}
	if (--connection->setup_replies == 0)
		become_ready(connection);
}

/* replies */

/* The reply belongs to the oldest entry. False: it makes no sense. */
static bool
entry_replied(ZarisConnection *connection, const ZarisReply *reply)
{
	ZarisEntry *oldest = ring_at(connection, 0);
	bool		is_orphan = connection->n_orphans > 0 && oldest->operation == NULL;
	ZarisEntry	entry;

	oldest->seen++;
	if (!is_orphan && !connection->hooks->replied(connection, oldest, reply))
		return false;
	if (oldest->seen < oldest->expected)
		return true;

	entry = *oldest;
	ring_pop(connection);
	if (is_orphan)
		connection->n_orphans--;
	else
		connection->hooks->finished(connection, &entry);
	collector_reset(&connection->collector);
	return true;
}

/*
 * A reply, or the stream of them, is garbage.  The oldest entry has got a reply that cannot be understood, so that even
 * a write's outcome is in doubt; all others in flight have got none.
 */
static void
fail_by_garbage(ZarisConnection *connection, ZarisStatus status, const char *problem)
{
	ZarisAnswer *answer = &connection->collector.answer;
	ZarisEntry	 entry;
	bool		 is_orphan;

	if (connection->state < ZARIS_CONNECTION_READY || !zaris_connection_in_flight(connection))
	{
		fail_text(connection, status, problem);
		return;
	}
	entry = *ring_at(connection, 0);
	is_orphan = connection->n_orphans > 0 && entry.operation == NULL;
	ring_pop(connection);
	zaris_connection_fail(connection, ZARIS_TRANSPORT_ERROR, false, true, problem, strlen(problem));
	if (is_orphan)
		return;
	answer->status = status;
	answer->outcome = ZARIS_OUTCOME_IN_DOUBT;
	answer->text = problem;
	answer->text_len = strlen(problem);
	connection->collector.garbage = true;
	connection->hooks->finished(connection, &entry);
	collector_reset(&connection->collector);
}

static void
reply_arrived(ZarisConnection *connection, const ZarisReply *reply)
{
	if (reply->type == ZARIS_REPLY_PUSH)
		return;
	switch (connection->state)
	{
		case ZARIS_CONNECTION_LOGIN:
			login_replied(connection, reply);
			return;
		case ZARIS_CONNECTION_SETUP:
			setup_replied(connection, reply);
			return;
		case ZARIS_CONNECTION_READY:
		case ZARIS_CONNECTION_BROKEN:
			break;
		default:
			return;
	}
	if (zaris_connection_in_flight(connection))
	{
		if (!entry_replied(connection, reply))
			fail_by_garbage(connection, ZARIS_PROTOCOL_ERROR, "the reply is none to the command");
	}
	else if (reply->type == ZARIS_REPLY_ERROR)
		fail_by_reply(connection, reply, ZARIS_PROTOCOL_ERROR); /* a goodbye to nobody in particular */
	else
		fail_text(connection, ZARIS_PROTOCOL_ERROR, "a reply to nothing");
}

/* stream callbacks */

static void
stream_received(void *context, const char *data, size_t len)
{
	ZarisConnection *connection = context;
	uint64_t		 generation = connection->generation;
	ZarisReaderStep	 step;
	ZarisReply		 reply;

	connection->just_heard = true;
	zaris_reader_feed(&connection->reader, data, len);
	while ((step = zaris_reader_next(&connection->reader, &reply)) == ZARIS_READER_REPLY)
	{
		reply_arrived(connection, &reply);
		if (connection->generation != generation)
			break; /* closed meanwhile: the rest was said to nobody */
	}
	if (step == ZARIS_READER_BAD)
		fail_by_garbage(connection, connection->reader.status, connection->reader.problem);
	connection->hooks->settled(connection);
	connection->just_heard = false;
}

static void
stream_opened(void *context, const char *error)
{
	ZarisConnection *connection = context;

	if (error != NULL)
	{
		zaris_stream_close(connection->stream);
		connection->stream = NULL;
		connection->candidate++;
		try_candidate(connection, error);
	}
	else
	{
		connection->just_heard = true;
		begin_login(connection);
	}
	connection->hooks->settled(connection);
	connection->just_heard = false;
}

static void
stream_ended(void *context, const char *error)
{
	ZarisConnection *connection = context;

	if (connection->state >= ZARIS_CONNECTION_READY)
	{
		if (error == NULL)
			error = "connection was closed by the server";
		zaris_connection_fail(connection, ZARIS_TRANSPORT_ERROR, false, true, error, strlen(error));
	}
	else
		fail_text(connection, ZARIS_CONNECT_ERROR, error != NULL ? error : "connection was closed during login");
	connection->hooks->settled(connection);
}

static const ZarisStreamCallbacks stream_callbacks = {
	.opened = stream_opened,
	.received = stream_received,
	.ended = stream_ended};

static void
timer_fired(void *context)
{
	ZarisConnection *connection = context;

	if (connection->state == ZARIS_CONNECTION_READY)
		fail_text(connection, ZARIS_TRANSPORT_ERROR, "no reply within connect_timeout");
	else
		fail_text(connection, ZARIS_CONNECT_ERROR, "no connection and login within connect_timeout");
	connection->hooks->settled(connection);
}

/* connecting */

static bool
is_seed(const ZarisConnectionSetup *setup, const ZarisAddress *address)
{
	for (int i = 0; i < setup->n_seeds; i++)
		if (zaris_address_equal(&setup->seeds[i], address))
			return true;
	return false;
}

/*
 * The addresses to try.  Looking up a name blocks, so only seeds are looked up where the topology has told the number:
 * a seed's name is what the user wrote, and may have come to mean another machine.
 */
static bool
resolve(ZarisConnection *connection, const char **error)
{
	ZarisAddress numeric;
	bool		 has_ip = connection->ip[0] != '\0' && connection->address.port > 0 &&
				  zaris_address_set(&numeric, connection->ip, strlen(connection->ip), connection->address.port);

	connection->candidate = 0;
	if (has_ip && !is_seed(connection->setup, &connection->address) &&
		zaris_resolve(&numeric, &connection->candidates, error))
		return true;
	if (zaris_resolve(&connection->address, &connection->candidates, error))
		return true;
	return has_ip && zaris_resolve(&numeric, &connection->candidates, error);
}

/* Try the next address; the last error is the one to report when there is none left. */
static void
try_candidate(ZarisConnection *connection, const char *error)
{
	while (connection->candidate < connection->candidates.n)
	{
		const struct sockaddr_storage *address = &connection->candidates.at[connection->candidate].address;

		connection->stream = zaris_stream_open(connection->setup->loop, (const struct sockaddr *) address,
											   connection->candidates.at[connection->candidate].len,
											   &stream_callbacks, connection);
		if (connection->stream != NULL)
		{
			connection->state = ZARIS_CONNECTION_CONNECTING;
			return;
		}
		error = "out of memory or file descriptors";
		connection->candidate++;
	}
	fail_text(connection, ZARIS_CONNECT_ERROR, error);
}

static bool
start_timer(ZarisConnection *connection)
{
	uint64_t timeout = connection->setup->connect_timeout_us;

	if (timeout == 0)
		return true;
	if (connection->timer == NULL)
		connection->timer = zaris_timer_create(connection->setup->loop, timer_fired, connection);
	return connection->timer != NULL && zaris_timer_set(connection->timer, zaris_loop_now_us() + timeout);
}

static void
connect_now(ZarisConnection *connection)
{
	const char *error = NULL;

	if (!resolve(connection, &error))
		fail_text(connection, ZARIS_CONNECT_ERROR, error);
	else if (!start_timer(connection))
		fail_text(connection, ZARIS_NO_MEMORY, "out of memory");
	else
		try_candidate(connection, "host name has no address");
}

/* sending */

static void
write_composed(ZarisConnection *connection)
{
	bool ok;

	ok = zaris_stream_write(connection->stream, connection->out.data, connection->out.len);
	connection->flushed += connection->out.len;
	zaris_out_clear(&connection->out);

	/* Answers to what was sent before may have come in: `ended` follows when they have been read. */
	if (!ok)
		connection->state = ZARIS_CONNECTION_BROKEN;
}

/* READY and nothing in flight: log in again, or give the stream up. */
static void
finish_drain(ZarisConnection *connection)
{
	ZarisDrain drain = connection->drain;

	connection->drain = ZARIS_DRAIN_NONE;
	if (drain == ZARIS_DRAIN_REOPEN)
		drop_stream(connection);
	else if (start_timer(connection))
		begin_login(connection);
	else
		fail_text(connection, ZARIS_NO_MEMORY, "out of memory");
}

void
zaris_connection_advance(ZarisConnection *connection)
{
	if (connection->state == ZARIS_CONNECTION_READY)
	{
		bool idle = !zaris_connection_in_flight(connection);

		if (connection->drain != ZARIS_DRAIN_NONE)
		{
			if (!idle)
				return;
			finish_drain(connection);
		}
		else if (connection->out.len == 0)
			return;

		/* A server may have closed an idle connection: what was sent into it would be in doubt. */
		else if (idle && !connection->just_heard && !zaris_stream_is_alive(connection->stream))
			drop_stream(connection);
	}
	if (connection->state == ZARIS_CONNECTION_CLOSED && connection->ring_count > 0)
		connect_now(connection);
	else if (connection->state == ZARIS_CONNECTION_READY && connection->out.len > 0)
		write_composed(connection);
}

void
zaris_connection_drain(ZarisConnection *connection, ZarisDrain drain)
{
	/* A stream that goes needs no login any more. */
	if (connection->state == ZARIS_CONNECTION_READY && connection->drain < drain)
		connection->drain = drain;
}

/* life */

void
zaris_connection_init(ZarisConnection *connection, const ZarisConnectionSetup *setup,
					  const ZarisConnectionHooks *hooks, void *owner)
{
	memset(connection, 0, sizeof(*connection));
	connection->setup = setup;
	connection->hooks = hooks;
	connection->owner = owner;
	zaris_reader_init(&connection->reader);
	collector_reset(&connection->collector);
}

void
zaris_connection_free(ZarisConnection *connection)
{
	if (connection->stream != NULL)
		zaris_stream_close(connection->stream);
	zaris_timer_destroy(connection->timer);
	zaris_reader_reset(&connection->reader);
	zaris_out_free(&connection->out);
	free(connection->scratch);
	free(connection->ring);
}

void
zaris_connection_set_address(ZarisConnection *connection, const ZarisAddress *address, const char *ip)
{
	if (!zaris_address_equal(&connection->address, address))
	{
		if (connection->stream != NULL || connection->ring_count > 0)
			fail_text(connection, ZARIS_TRANSPORT_ERROR, "the node's place was taken by another");
		connection->address = *address;
	}
	if (strcmp(connection->ip, ip) != 0)
		snprintf(connection->ip, sizeof(connection->ip), "%s", ip);
}

/*
 * Entries of the batch that were not sent are cut out of ->out and of the ring: a command that nobody wants any more
 * must not run.  Those in flight stay as orphans, for their replies will come.
 */
size_t
zaris_connection_forget(ZarisConnection *connection, const struct ZarisBatch *batch)
{
	size_t in_flight = 0;
	size_t kept = 0;
	size_t len = 0;

	for (size_t i = 0; i < connection->ring_count; i++)
	{
		ZarisEntry entry = *ring_at(connection, i);
		bool	   is_ours = entry.operation != NULL && entry.operation->batch == batch;

		if (is_sent(connection, &entry))
		{
			if (is_ours)
			{
				entry.operation = NULL;
				connection->n_orphans++;
				in_flight++;
			}
		}
		else if (is_ours)
			continue;
		else
		{
			size_t size = entry.end - entry.start;

			memmove(connection->out.data + len, connection->out.data + (entry.start - connection->flushed), size);
			entry.start = connection->flushed + len;
			entry.end = entry.start + size;
			len += size;
		}
		*ring_at(connection, kept++) = entry;
	}
	connection->ring_count = kept;
	connection->out.len = len;
	return in_flight;
}
