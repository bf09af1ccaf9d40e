/*
 * commands.c
 *	  Gets, Puts and Deletes as commands, and what their replies mean: see commands.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/version.h"
#include "stores/resp/classify.h"
#include "stores/resp/commands.h"

#define KEEP_SCRATCH	4096 /* fields */
#define FEW_COMPARISONS 512	 /* up to here, looking for fields one by one beats sorting */
#define VERSION_DIGITS	16

/* The read of a record: one of these, and PEXPIRETIME where the expiry is wanted. */
typedef enum ReadCommand
{
	READ_TYPE,
	READ_GET,
	READ_HMGET,
	READ_HGETALL
} ReadCommand;

static ReadCommand
read_command(const ZarisOperation *operation)
{
	bool value = operation->want & ZARIS_WANT_VALUE;
	bool version = operation->want & ZARIS_WANT_VERSION;

	if (!value && !version)
		return READ_TYPE;
	if (operation->record == ZARIS_RECORD_STRING)
		return READ_GET;

	/* A version is the whole record's. */
	return version || operation->n_fields == 0 ? READ_HGETALL : READ_HMGET;
}

const char *
zaris_kind_name(ZarisRecordKind kind)
{
	return kind == ZARIS_RECORD_HASH ? "hash" : "string";
}

static bool
is_write(const ZarisOperation *operation)
{
	return operation->kind == ZARIS_OP_PUT || operation->kind == ZARIS_OP_DELETE;
}

/* SET NX needs no script. */
static bool
is_plain_put(const ZarisOperation *operation)
{
	return operation->kind == ZARIS_OP_PUT && operation->record == ZARIS_RECORD_STRING &&
		   operation->precondition == ZARIS_IF_ABSENT;
}

/* composing */

void
zaris_compose_command(ZarisComposer *composer, size_t n_args, const char *name)
{
	/* It holds for the next command only, so each one has its own, in the same write. */
	if (composer->asking)
	{
		zaris_out_begin(composer->out, 1);
		zaris_out_text(composer->out, "ASKING");
		composer->replies++;
	}
	zaris_out_begin(composer->out, n_args);
	zaris_out_text(composer->out, name);
	composer->replies++;
}

static void
compose_key_command(ZarisComposer *composer, const char *name, const ZarisOperation *operation)
{
	zaris_compose_command(composer, 2, name);
	zaris_out_bytes(composer->out, operation->key);
}

static void
compose_get(ZarisComposer *composer, const ZarisOperation *operation)
{
	switch (read_command(operation))
	{
		case READ_TYPE:
			compose_key_command(composer, "TYPE", operation);
			break;
		case READ_GET:
			compose_key_command(composer, "GET", operation);
			break;
		case READ_HGETALL:
			compose_key_command(composer, "HGETALL", operation);
			break;
		case READ_HMGET:
			zaris_compose_command(composer, 2 + (size_t) operation->n_fields, "HMGET");
			zaris_out_bytes(composer->out, operation->key);
			for (int i = 0; i < operation->n_fields; i++)
				zaris_out_bytes(composer->out, operation->fields[i].name);
			break;
	}
	if (operation->want & ZARIS_WANT_EXPIRY)
		compose_key_command(composer, "PEXPIRETIME", operation);
}

/*
 * A time before 1970 is in the past like any other, but SET takes no PXAT below 1.  A record put with an expiry in the
 * past is gone at once.
 */
static int64_t
expiry_ms(const ZarisOperation *operation)
{
	return operation->expires_at_ms > 0 ? operation->expires_at_ms : 1;
}

static void
compose_plain_put(ZarisComposer *composer, const ZarisOperation *operation)
{
	bool expires = operation->expiry == ZARIS_EXPIRY_SET;

	zaris_compose_command(composer, expires ? 6 : 4, "SET");
	zaris_out_bytes(composer->out, operation->key);
	zaris_out_bytes(composer->out, operation->value);
	zaris_out_text(composer->out, "NX");
	if (expires)
	{
		zaris_out_text(composer->out, "PXAT");
		zaris_out_integer(composer->out, expiry_ms(operation));
	}
}

static ZarisScriptId
script_id(const ZarisOperation *operation)
{
	if (operation->kind == ZARIS_OP_PUT)
		return operation->record == ZARIS_RECORD_STRING ? ZARIS_SCRIPT_PUT_STRING : ZARIS_SCRIPT_PUT_HASH;
	return operation->record == ZARIS_RECORD_STRING ? ZARIS_SCRIPT_DELETE_STRING : ZARIS_SCRIPT_DELETE_HASH;
}

static void
compose_condition(ZarisOut *out, const ZarisOperation *operation)
{
	char digits[VERSION_DIGITS + 1];

	switch (operation->precondition)
	{
		case ZARIS_IF_ABSENT:
			zaris_out_text(out, "a");
			break;
		case ZARIS_IF_PRESENT:
			zaris_out_text(out, "p");
			break;
		case ZARIS_IF_MATCH_VERSION:
			snprintf(digits, sizeof(digits), "%016" PRIx64, (uint64_t) operation->match_version);
			zaris_out_text(out, digits);
			break;
	}
}

static void
compose_expiry(ZarisOut *out, const ZarisOperation *operation)
{
	switch (operation->expiry)
	{
		case ZARIS_EXPIRY_KEEP:
			zaris_out_text(out, "k");
			break;
		case ZARIS_EXPIRY_CLEAR:
			zaris_out_text(out, "c");
			break;
		case ZARIS_EXPIRY_SET:
			zaris_out_integer(out, expiry_ms(operation));
			break;
	}
}

static int
count_values(const ZarisOperation *operation)
{
	int n = 0;

	for (int i = 0; i < operation->n_fields; i++)
		n += operation->fields[i].value.data != NULL;
	return n;
}

/* n, the fields that are set, then the names of those that are removed */
static void
compose_fields(ZarisOut *out, const ZarisOperation *operation, int n_values)
{
	zaris_out_integer(out, n_values);
	for (int i = 0; i < operation->n_fields; i++)
	{
		if (operation->fields[i].value.data == NULL)
			continue;
		zaris_out_bytes(out, operation->fields[i].name);
		zaris_out_bytes(out, operation->fields[i].value);
	}
	for (int i = 0; i < operation->n_fields; i++)
		if (operation->fields[i].value.data == NULL)
			zaris_out_bytes(out, operation->fields[i].name);
}

/*
 * The first call on a stream sends the text, and so loads it; as replies keep their order, all behind it can name the
 * digest.
 */
static void
compose_script(ZarisConnection *connection, ZarisComposer *composer, const ZarisEntry *entry)
{
	const ZarisOperation *operation = entry->operation;
	const ZarisScripts	 *scripts = &connection->setup->scripts;
	ZarisScriptId		  id = script_id(operation);
	bool				  full = !scripts->has_digests || !connection->knows_script[id] || (entry->flags & ZARIS_ENTRY_FULL_SCRIPT);
	int					  n_values = id == ZARIS_SCRIPT_PUT_HASH ? count_values(operation) : 0;
	size_t				  n_args = 5;

	if (id == ZARIS_SCRIPT_PUT_STRING)
		n_args += 2;
	else if (id == ZARIS_SCRIPT_PUT_HASH)
		n_args += 2 + (size_t) operation->n_fields + n_values;
	zaris_compose_command(composer, n_args, full ? "EVAL" : "EVALSHA");
	zaris_out_text(composer->out, full ? zaris_script_text(id) : scripts->digest[id]);
	zaris_out_text(composer->out, "1");
	zaris_out_bytes(composer->out, operation->key);
	compose_condition(composer->out, operation);
	if (operation->kind == ZARIS_OP_PUT)
		compose_expiry(composer->out, operation);
	if (id == ZARIS_SCRIPT_PUT_STRING)
		zaris_out_bytes(composer->out, operation->value);
	else if (id == ZARIS_SCRIPT_PUT_HASH)
		compose_fields(composer->out, operation, n_values);
	connection->knows_script[id] = true;
}

static bool
is_too_large(ZarisBytes bytes)
{
	return bytes.data != NULL && bytes.len > ZARIS_READER_MAX_BULK;
}

/* What cannot be sent, or would be misunderstood. */
static ZarisStatus
check_request(const ZarisOperation *operation, const char **problem)
{
	bool too_large = is_too_large(operation->key) || is_too_large(operation->value);

	for (int i = 0; i < operation->n_fields && !too_large; i++)
		too_large = is_too_large(operation->fields[i].name) ||
					(operation->kind == ZARIS_OP_PUT && is_too_large(operation->fields[i].value));
	if (too_large)
	{
		*problem = "a key, field or value is larger than 512 MB";
		return ZARIS_TOO_LARGE;
	}
	if (operation->kind == ZARIS_OP_DELETE && operation->precondition == ZARIS_IF_ABSENT)
	{
		*problem = "what is absent cannot be deleted";
		return ZARIS_INVALID_REQUEST;
	}
	if (operation->kind == ZARIS_OP_PUT && operation->record == ZARIS_RECORD_HASH &&
		operation->precondition == ZARIS_IF_ABSENT && count_values(operation) == 0)
	{
		*problem = "a hash without fields cannot exist";
		return ZARIS_INVALID_REQUEST;
	}
	return ZARIS_OK;
}

/* Results of an earlier attempt are nothing to this one. */
static void
reset_results(ZarisOperation *operation)
{
	operation->result = (ZarisBytes){0};
	operation->all_fields = NULL;
	operation->n_all_fields = 0;
	operation->version = 0;
	operation->has_version = false;
	operation->expiry_ms = ZARIS_NO_EXPIRY;
	operation->page = NULL;
	operation->node_state = NULL;
	if (operation->kind == ZARIS_OP_GET)
		for (int i = 0; i < operation->n_fields; i++)
			operation->fields[i].value = (ZarisBytes){0};
}

ZarisStatus
zaris_command_compose(ZarisConnection *connection, ZarisEntry *entry, const char **problem)
{
	ZarisOperation *operation = entry->operation;
	ZarisComposer	composer = {.out = &connection->out, .asking = (entry->flags & ZARIS_ENTRY_ASKING) != 0};
	ZarisStatus		status = ZARIS_OK;

	if (entry->stage == ZARIS_STAGE_FIRST)
	{
		reset_results(operation);
		status = check_request(operation, problem);
		if (status != ZARIS_OK)
			return status;
	}
	if (entry->stage == ZARIS_STAGE_TYPE)
		compose_key_command(&composer, "TYPE", operation);
	else if (operation->kind == ZARIS_OP_GET)
		compose_get(&composer, operation);
	else if (is_plain_put(operation))
		compose_plain_put(&composer, operation);
	else if (is_write(operation))
		compose_script(connection, &composer, entry);
	else
		status = zaris_page_compose(operation, entry, &composer, problem);
	entry->expected = composer.replies;
	return connection->out.failed ? ZARIS_NO_MEMORY : status;
}

/* collecting */

/* An error says more than an answer, and a transient one more than a final one: with it the attempt is void. */
static bool
collector_takes(const ZarisCollector *collector, ZarisStatus status)
{
	if (collector->answer.status == ZARIS_OK)
		return true;
	return zaris_status_class(status) == ZARIS_CLASS_TRANSIENT &&
		   zaris_status_class(collector->answer.status) != ZARIS_CLASS_TRANSIENT;
}

void
zaris_collect(ZarisConnection *connection, ZarisStatus status, const char *text)
{
	ZarisCollector *collector = &connection->collector;

	if (!collector_takes(collector, status))
		return;
	collector->answer.status = status;
	collector->answer.outcome = ZARIS_OUTCOME_APPLIED;
	collector->answer.redirect = ZARIS_REDIRECT_NONE;
	collector->answer.text = text;
	collector->answer.text_len = text != NULL ? strlen(text) : 0;
}

bool
zaris_collect_error(ZarisConnection *connection, const ZarisReply *reply)
{
	ZarisCollector *collector = &connection->collector;
	size_t			len = reply->len < sizeof(collector->text) ? reply->len : sizeof(collector->text);

	if (!collector_takes(collector, zaris_classify(reply->data, reply->len)->status))
		return true;
	collector->flags = zaris_classify_answer(reply->data, reply->len, &connection->address, &collector->answer);

	/* the reply's bytes are gone before the answer is given */
	memcpy(collector->text, reply->data, len);
	collector->answer.text = collector->text;
	collector->answer.text_len = len;
	return true;
}

bool
zaris_collect_type(ZarisConnection *connection, const ZarisOperation *operation, const ZarisReply *reply)
{
	if (!zaris_reply_is_text(reply))
		return false;
	if (zaris_reply_equals(reply, "none"))
		connection->collector.missing = true;
	else if (!zaris_reply_equals(reply, zaris_kind_name(operation->record)))
		connection->collector.other_kind = true;
	return true;
}

static void
out_of_memory(ZarisConnection *connection)
{
	zaris_collect(connection, ZARIS_NO_MEMORY, NULL);
}

/* reading */

/* A copy in the batch's arena. Empty is not nil (I9), so there is a pointer in any case. */
static bool
keep_bytes(ZarisOperation *operation, const char *data, size_t len, ZarisBytes *kept)
{
	char *copy = zaris_batch_alloc(operation->batch, len > 0 ? len : 1);

	if (copy == NULL)
		return false;
	memcpy(copy, data, len);
	kept->data = copy;
	kept->len = len;
	return true;
}

static bool
get_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	if (reply->type == ZARIS_REPLY_NIL)
	{
		connection->collector.missing = true;
		return true;
	}
	if (!zaris_reply_is_data(reply))
		return false;
	if (operation->want & ZARIS_WANT_VERSION)
	{
		operation->has_version = zaris_version_string(reply->data, reply->len, &operation->version);
		if (!operation->has_version)
			zaris_collect(connection, ZARIS_NO_MEMORY, "SHA-1 is not to be had in this process");
	}
	if ((operation->want & ZARIS_WANT_VALUE) &&
		!keep_bytes(operation, reply->data, reply->len, &operation->result))
		out_of_memory(connection);
	return true;
}

static bool
hmget_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);
	bool		   found = false;

	if (reply->type != ZARIS_REPLY_ARRAY || reply->count != (size_t) operation->n_fields)
		return false;
	for (int i = 0; i < operation->n_fields; i++)
	{
		ZarisReply item;

		if (!zaris_reply_take(&walk, &item))
			return false;
		if (item.type == ZARIS_REPLY_NIL)
			continue;
		if (!zaris_reply_is_data(&item))
			return false;
		found = true;
		if (!keep_bytes(operation, item.data, item.len, &operation->fields[i].value))
			out_of_memory(connection);
	}

	/* A missing key answers like a hash that has none of the fields. */
	connection->collector.unclear = !found;
	return true;
}

static int
compare_names(const void *a, const void *b)
{
	const ZarisBytes *x = &((const ZarisField *) a)->name;
	const ZarisBytes *y = &((const ZarisField *) b)->name;
	int				  order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

	return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* The fields of an HGETALL reply in the connection's scratch, pointing into the reply. */
static bool
take_apart(ZarisConnection *connection, const ZarisReply *reply, int *n_fields)
{
	size_t		   n = reply->count / 2;
	ZarisReplyWalk walk = zaris_reply_walk(reply);

	if (n > connection->scratch_size)
	{
		ZarisField *scratch = realloc(connection->scratch, n * sizeof(*scratch));

		if (scratch == NULL)
		{
			out_of_memory(connection);
			*n_fields = 0;
			return true;
		}
		connection->scratch = scratch;
		connection->scratch_size = n;
	}
	for (size_t i = 0; i < n; i++)
	{
		ZarisReply name;
		ZarisReply value;

		if (!zaris_reply_take(&walk, &name) || !zaris_reply_is_data(&name) ||
			!zaris_reply_take(&walk, &value) || !zaris_reply_is_data(&value))
			return false;
		connection->scratch[i].name = (ZarisBytes){name.data, name.len};
		connection->scratch[i].value = (ZarisBytes){value.data, value.len};
	}
	*n_fields = (int) n;
	return true;
}

static bool
keep_all(ZarisOperation *operation, ZarisField *fields, int n)
{
	operation->all_fields = zaris_batch_alloc(operation->batch, (size_t) n * sizeof(ZarisField));
	if (operation->all_fields == NULL)
		return false;
	qsort(fields, n, sizeof(*fields), compare_names);
	for (int i = 0; i < n; i++)
		if (!keep_bytes(operation, fields[i].name.data, fields[i].name.len, &operation->all_fields[i].name) ||
			!keep_bytes(operation, fields[i].value.data, fields[i].value.len, &operation->all_fields[i].value))
			return false;
	operation->n_all_fields = n;
	return true;
}

static const ZarisField *
find_field(const ZarisField *fields, int n, const ZarisField *wanted, bool sorted)
{
	if (sorted)
		return bsearch(wanted, fields, n, sizeof(*fields), compare_names);
	for (int i = 0; i < n; i++)
		if (compare_names(&fields[i], wanted) == 0)
			return &fields[i];
	return NULL;
}

static bool
keep_listed(ZarisOperation *operation, ZarisField *fields, int n)
{
	bool sorted = (int64_t) n * operation->n_fields > FEW_COMPARISONS;

	if (sorted)
		qsort(fields, n, sizeof(*fields), compare_names);
	for (int i = 0; i < operation->n_fields; i++)
	{
		const ZarisField *found = find_field(fields, n, &operation->fields[i], sorted);

		if (found != NULL &&
			!keep_bytes(operation, found->value.data, found->value.len, &operation->fields[i].value))
			return false;
	}
	return true;
}

static bool
hgetall_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	bool kept = true;
	int	 n;

	if ((reply->type != ZARIS_REPLY_ARRAY && reply->type != ZARIS_REPLY_MAP) || reply->count % 2 != 0)
		return false;
	if (reply->count == 0)
	{
		connection->collector.missing = true;
		return true;
	}
	if (!take_apart(connection, reply, &n))
		return false;
	if (n > 0 && (operation->want & ZARIS_WANT_VERSION))
	{
		operation->has_version = zaris_version_hash(connection->scratch, n, &operation->version);
		if (!operation->has_version)
			zaris_collect(connection, ZARIS_NO_MEMORY, "SHA-1 is not to be had in this process");
	}
	if (n > 0 && (operation->want & ZARIS_WANT_VALUE))
		kept = operation->n_fields == 0 ? keep_all(operation, connection->scratch, n) : keep_listed(operation, connection->scratch, n);
	if (!kept)
		out_of_memory(connection);
	if (connection->scratch_size > KEEP_SCRATCH)
	{
		free(connection->scratch);
		connection->scratch = NULL;
		connection->scratch_size = 0;
	}
	return true;
}

/* PEXPIRETIME: milliseconds, -1 = none, -2 = no such key (any more) */
static bool
expiry_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	if (reply->type != ZARIS_REPLY_INTEGER || reply->integer < -2)
		return false;
	if (reply->integer == -2)
		connection->collector.missing = true;
	else
	{
		operation->expiry_ms = reply->integer;
		connection->collector.unclear = false; /* it exists */
	}
	return true;
}

static bool
read_replied(ZarisConnection *connection, ZarisOperation *operation, uint32_t n, const ZarisReply *reply)
{
	if (n == 1)
		return expiry_replied(connection, operation, reply);
	switch (read_command(operation))
	{
		case READ_TYPE:
			return zaris_collect_type(connection, operation, reply);
		case READ_GET:
			return get_replied(connection, operation, reply);
		case READ_HMGET:
			return hmget_replied(connection, operation, reply);
		case READ_HGETALL:
			return hgetall_replied(connection, operation, reply);
	}
	return false;
}

/* writing */

static bool
plain_put_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	if (reply->type == ZARIS_REPLY_NIL)
	{
		connection->collector.unclear = true;
		return true;
	}
	operation->has_version = zaris_version_string(operation->value.data, operation->value.len, &operation->version);
	return zaris_reply_equals(reply, "OK");
}

static bool
parse_version(const ZarisReply *reply, int64_t *version)
{
	uint64_t bits = 0;

	if (reply->len != VERSION_DIGITS)
		return false;
	for (int i = 0; i < VERSION_DIGITS; i++)
	{
		char c = reply->data[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		bits = bits << 4 | (uint64_t) (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	memcpy(version, &bits, sizeof(bits));
	return true;
}

static bool
script_replied(ZarisConnection *connection, ZarisOperation *operation, const ZarisReply *reply)
{
	bool is_hash_put = script_id(operation) == ZARIS_SCRIPT_PUT_HASH;

	if (is_hash_put && zaris_reply_is_text(reply))
	{
		operation->has_version = parse_version(reply, &operation->version);
		return operation->has_version;
	}
	if (reply->type != ZARIS_REPLY_INTEGER)
		return false;
	switch (reply->integer)
	{
		case ZARIS_VERDICT_DONE:
			if (is_hash_put)
				return false;
			if (operation->kind == ZARIS_OP_PUT)
				operation->has_version = zaris_version_string(operation->value.data, operation->value.len,
															  &operation->version);
			return true;
		case ZARIS_VERDICT_CONFLICT:
			zaris_collect(connection, ZARIS_CONFLICT, NULL);
			return true;
		case ZARIS_VERDICT_NOT_FOUND:
			zaris_collect(connection, ZARIS_NOT_FOUND, NULL);
			return true;
		case ZARIS_VERDICT_WRONG_TYPE:
			zaris_collect(connection, ZARIS_WRONG_TYPE, NULL);
			return true;
		case ZARIS_VERDICT_EMPTY:
			zaris_collect(connection, ZARIS_INVALID_REQUEST,
						  "the change would take the last field of a hash, and a hash without fields cannot exist");
			connection->collector.answer.outcome = ZARIS_OUTCOME_REJECTED;
			return true;
		default:
			return false;
	}
}

bool
zaris_command_replied(ZarisConnection *connection, const ZarisEntry *entry, const ZarisReply *reply)
{
	ZarisOperation *operation = entry->operation;
	uint32_t		n = entry->seen - 1;

	/* What ASKING answers is of no interest: the command behind it says what matters. */
	if (entry->flags & ZARIS_ENTRY_ASKING)
	{
		if (n % 2 == 0)
			return true;
		n /= 2;
	}
	if (!is_write(operation) && operation->kind != ZARIS_OP_GET)
		return zaris_page_replied(connection, entry, n, reply);
	if (reply->type == ZARIS_REPLY_ERROR)
		return zaris_collect_error(connection, reply);
	if (entry->stage == ZARIS_STAGE_TYPE)
		return zaris_collect_type(connection, operation, reply);
	if (operation->kind == ZARIS_OP_GET)
		return read_replied(connection, operation, n, reply);
	return is_plain_put(operation) ? plain_put_replied(connection, operation, reply) : script_replied(connection, operation, reply);
}

/* finishing */

ZarisStage
zaris_command_finish(ZarisConnection *connection, const ZarisEntry *entry)
{
	const ZarisOperation *operation = entry->operation;
	ZarisCollector		 *collector = &connection->collector;

	if (collector->answer.status != ZARIS_OK)
		return ZARIS_STAGE_DONE;
	if (!is_write(operation) && operation->kind != ZARIS_OP_GET)
		return zaris_page_finish(connection, entry);
	if (entry->stage == ZARIS_STAGE_FIRST && collector->unclear && !collector->missing)
		return ZARIS_STAGE_TYPE;

	if (collector->other_kind)
		zaris_collect(connection, ZARIS_WRONG_TYPE, NULL);
	else if (is_write(operation) && entry->stage == ZARIS_STAGE_TYPE)
		zaris_collect(connection, ZARIS_CONFLICT, NULL); /* it is there, or was when SET NX looked */
	else if (collector->missing)
		zaris_collect(connection, ZARIS_NOT_FOUND, NULL);
	return ZARIS_STAGE_DONE;
}
