/*
 * reader.c
 *	  Incremental, bounded reader of RESP2 and RESP3: see reader.h.
 *
 * One function, item_parse(), knows the grammar: it reads one item, which is a scalar with its payload or the header
 * of an aggregate.  scan() runs it over a reply that may still be incomplete and remembers where it stopped;
 * zaris_reply_take() runs it again over bytes that scan() has found whole and well-formed.  So there is one
 * parser, and no tree is built.
 *
 *		*2 \r\n  $3 \r\n foo \r\n  *1 \r\n  :7 \r\n
 *		|------| |---------------| |------| |------|		four items, one reply
 */
#include <stdlib.h>
#include <string.h>

#include "stores/resp/reader.h"

/* More of a header line than any legal one has: type, sign, 20 digits, CR, LF. */
#define MAX_HEADER_LINE 32
#define MIN_TAIL		1024
#define KEEP_TAIL		((size_t) 256 * 1024) /* a larger tail is given back when it is spent */

typedef enum ItemState
{
	ITEM_WHOLE,
	ITEM_PARTIAL,
	ITEM_BAD
} ItemState;

typedef struct Item
{
	ZarisReply	reply;
	size_t		size;	 /* ITEM_WHOLE: bytes of it */
	size_t		wanted;	 /* ITEM_PARTIAL: bytes that it has in all; 0 = not known yet */
	const char *problem; /* ITEM_BAD */
} Item;

static ItemState
item_bad(Item *item, const char *problem)
{
	item->problem = problem;
	return ITEM_BAD;
}

bool
zaris_digits(const char *text, size_t len, uint64_t most, uint64_t *number)
{
	uint64_t value = 0;

	if (len < 1 || len > 20)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		unsigned digit = (unsigned char) text[i] - '0';

		if (digit > 9 || digit > most || value > (most - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*number = value;
	return true;
}

/* [+-]digits within 64 bits */
static bool
parse_integer(const char *text, size_t len, int64_t *number)
{
	bool	 negative = len > 0 && text[0] == '-';
	uint64_t magnitude;

	if (len > 0 && (text[0] == '-' || text[0] == '+'))
	{
		text++;
		len--;
	}
	if (!zaris_digits(text, len, (uint64_t) INT64_MAX + negative, &magnitude))
		return false;
	*number = negative ? (int64_t) (0 - magnitude) : (int64_t) magnitude;
	return true;
}

/* What a double may consist of, "inf" and "nan" included.  Its value is of no interest to us. */
static bool
is_double(const char *text, size_t len)
{
	if (len == 0 || len > 400)
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0' || strchr("0123456789+-.eEinfa", text[i]) == NULL)
			return false;
	return true;
}

static bool
is_big_number(const char *text, size_t len)
{
	size_t i = (len > 0 && (text[0] == '-' || text[0] == '+')) ? 1 : 0;

	if (i == len)
		return false;
	for (; i < len; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return true;
}

/*
 * The line behind the type byte: up to, without, CR LF.  A lone CR or LF is an error: where they may stand for
 * something, two readers may see different replies in the same bytes.
 */
static ItemState
parse_line(const char *data, size_t len, size_t most, Item *item, size_t *line_len)
{
	size_t		look = len < most + 2 ? len : most + 2;
	const char *cr = memchr(data, '\r', look);

	if (cr == NULL)
	{
		if (memchr(data, '\n', look) != NULL)
			return item_bad(item, "a line ends without a carriage return");
		if (len > most)
			return item_bad(item, "a line is too long");
		return ITEM_PARTIAL;
	}
	if (memchr(data, '\n', cr - data) != NULL)
		return item_bad(item, "a line ends without a carriage return");
	if ((size_t) (cr - data) > most)
		return item_bad(item, "a line is too long");
	if ((size_t) (cr - data) + 1 == len)
		return ITEM_PARTIAL;
	if (cr[1] != '\n')
		return item_bad(item, "a carriage return without a line feed");
	*line_len = cr - data;
	return ITEM_WHOLE;
}

/* $ ! = : data has the whole header line, whose text is line_len bytes. */
static ItemState
parse_blob(char type, const char *data, size_t len, size_t line_len, Item *item)
{
	const char *line = data + 1;
	size_t		head = 1 + line_len + 2;
	uint64_t	size;

	if (type == '$' && line_len == 2 && line[0] == '-' && line[1] == '1')
	{
		item->reply.type = ZARIS_REPLY_NIL;
		item->size = head;
		return ITEM_WHOLE;
	}
	if (line_len == 1 && line[0] == '?')
		return item_bad(item, "streamed strings are not supported");
	if (!zaris_digits(line, line_len, ZARIS_READER_MAX_BULK, &size))
		return item_bad(item, "the length of a string is not a number within its bounds");
	if (len < head + size + 2)
	{
		item->wanted = head + size + 2;
		return ITEM_PARTIAL;
	}
	if (data[head + size] != '\r' || data[head + size + 1] != '\n')
		return item_bad(item, "a string is not followed by a line end");
	item->reply.data = data + head;
	item->reply.len = size;
	item->size = head + size + 2;
	item->reply.type = type == '$' ? ZARIS_REPLY_BULK : ZARIS_REPLY_ERROR;
	if (type == '=')
	{
		if (size < 4 || item->reply.data[3] != ':')
			return item_bad(item, "a verbatim string does not name its format");
		item->reply.type = ZARIS_REPLY_VERBATIM;
		item->reply.data += 4;
		item->reply.len -= 4;
	}
	return ITEM_WHOLE;
}

/* * % ~ > | */
static ItemState
parse_aggregate(char type, const char *data, size_t line_len, Item *item)
{
	const char *line = data + 1;
	bool		pairs = type == '%' || type == '|';
	uint64_t	count;

	item->size = 1 + line_len + 2;
	if (type == '*' && line_len == 2 && line[0] == '-' && line[1] == '1')
	{
		item->reply.type = ZARIS_REPLY_NIL;
		return ITEM_WHOLE;
	}
	if (line_len == 1 && line[0] == '?')
		return item_bad(item, "streamed aggregates are not supported");
	if (!zaris_digits(line, line_len, ZARIS_READER_MAX_ELEMENTS / (pairs ? 2 : 1), &count))
		return item_bad(item, "the number of elements is not a number within its bounds");
	item->reply.type = type == '*' ? ZARIS_REPLY_ARRAY : type == '%' ? ZARIS_REPLY_MAP
													 : type == '~'	 ? ZARIS_REPLY_SET
													 : type == '>'	 ? ZARIS_REPLY_PUSH
																	 : ZARIS_REPLY_ATTRIBUTE;
	item->reply.count = pairs ? count * 2 : count;
	return ITEM_WHOLE;
}

/* + - : , # ( _ */
static ItemState
parse_scalar(char type, const char *line, size_t line_len, Item *item)
{
	bool ok = true;

	item->size = 1 + line_len + 2;
	item->reply.data = line;
	item->reply.len = line_len;
	switch (type)
	{
		case '+':
			item->reply.type = ZARIS_REPLY_SIMPLE;
			break;
		case '-':
			item->reply.type = ZARIS_REPLY_ERROR;
			break;
		case ':':
			item->reply.type = ZARIS_REPLY_INTEGER;
			ok = parse_integer(line, line_len, &item->reply.integer);
			break;
		case ',':
			item->reply.type = ZARIS_REPLY_DOUBLE;
			ok = is_double(line, line_len);
			break;
		case '#':
			item->reply.type = ZARIS_REPLY_BOOLEAN;
			ok = line_len == 1 && (line[0] == 't' || line[0] == 'f');
			item->reply.integer = ok && line[0] == 't';
			break;
		case '(':
			item->reply.type = ZARIS_REPLY_BIG_NUMBER;
			ok = is_big_number(line, line_len);
			break;
		default:
			item->reply.type = ZARIS_REPLY_NIL;
			item->reply.data = NULL;
			ok = line_len == 0;
			break;
	}
	return ok ? ITEM_WHOLE : item_bad(item, "a number, boolean or null is malformed");
}

/* Read one item from the len bytes at data. */
static ItemState
item_parse(const char *data, size_t len, Item *item)
{
	size_t	  most;
	size_t	  line_len = 0;
	ItemState state;

	item->reply = (ZarisReply){0};
	item->size = 0;
	item->wanted = 0;
	if (len == 0)
		return ITEM_PARTIAL;
	switch (data[0])
	{
		case '+':
		case '-':
		case '(':
			most = ZARIS_READER_MAX_LINE;
			break;
		case ',':
			most = 400;
			break;
		case ':':
		case '#':
		case '_':
		case '$':
		case '!':
		case '=':
		case '*':
		case '%':
		case '~':
		case '>':
		case '|':
			most = MAX_HEADER_LINE;
			break;
		default:
			return item_bad(item, "the first byte of a reply is none of the protocol");
	}
	state = parse_line(data + 1, len - 1, most, item, &line_len);
	if (state != ITEM_WHOLE)
		return state;
	switch (data[0])
	{
		case '$':
		case '!':
		case '=':
			return parse_blob(data[0], data, len, line_len, item);
		case '*':
		case '%':
		case '~':
		case '>':
		case '|':
			return parse_aggregate(data[0], data, line_len, item);
		default:
			return parse_scalar(data[0], data + 1, line_len, item);
	}
}

static ZarisReaderStep
reader_bad(ZarisReader *reader, ZarisStatus status, const char *problem)
{
	reader->status = status;
	reader->problem = problem;
	return ZARIS_READER_BAD;
}

/*
 * One item was read: is the reply complete now?  An aggregate opens a level; a scalar, or an empty aggregate, is an
 * element of the innermost open level, and a level that has all its elements is itself an element of the one around
 * it.  An attribute is nobody's element: what it describes comes behind it.
 */
static ZarisReaderStep
reader_count(ZarisReader *reader, const ZarisReply *reply)
{
	bool is_attribute = reply->type == ZARIS_REPLY_ATTRIBUTE;

	if (reply->type == ZARIS_REPLY_PUSH && reader->depth > 0)
		return reader_bad(reader, ZARIS_PROTOCOL_ERROR, "a push inside a reply");
	if (reply->count > 0)
	{
		if (reader->depth == ZARIS_READER_MAX_DEPTH)
			return reader_bad(reader, ZARIS_PROTOCOL_ERROR, "a reply is nested too deeply");
		reader->left[reader->depth] = reply->count;
		reader->is_attribute[reader->depth] = is_attribute;
		reader->depth++;
		return ZARIS_READER_MORE;
	}
	if (is_attribute)
		return ZARIS_READER_MORE;
	while (reader->depth > 0)
	{
		if (--reader->left[reader->depth - 1] > 0)
			return ZARIS_READER_MORE;
		if (reader->is_attribute[--reader->depth])
			return ZARIS_READER_MORE;
	}
	return ZARIS_READER_REPLY;
}

/*
 * Look at the reply that begins at data, from where the last look stopped.  REPLY: reader->scanned is its length.
 * MORE: reader->wanted says how many bytes there must be before another look is of use.
 */
static ZarisReaderStep
reader_scan(ZarisReader *reader, const char *data, size_t len)
{
	for (;;)
	{
		Item			item;
		ZarisReaderStep step;

		switch (item_parse(data + reader->scanned, len - reader->scanned, &item))
		{
			case ITEM_BAD:
				return reader_bad(reader, ZARIS_PROTOCOL_ERROR, item.problem);
			case ITEM_PARTIAL:
				reader->wanted = item.wanted > 0 ? reader->scanned + item.wanted : 0;
				if (reader->wanted > ZARIS_READER_MAX_REPLY || len > ZARIS_READER_MAX_REPLY)
					return reader_bad(reader, ZARIS_TOO_LARGE, "a reply is larger than 1 GB");
				return ZARIS_READER_MORE;
			case ITEM_WHOLE:
				break;
		}
		reader->scanned += item.size;
		step = reader_count(reader, &item.reply);
		if (step != ZARIS_READER_MORE)
			return step;
	}
}

static bool
tail_append(ZarisReader *reader, size_t len)
{
	size_t needed = reader->tail_len + len;

	if (needed > reader->tail_size)
	{
		size_t size = reader->tail_size > 0 ? reader->tail_size : MIN_TAIL;
		char  *tail;

		while (size < needed)
			size *= 2;
		tail = realloc(reader->tail, size);
		if (tail == NULL)
			return false;
		reader->tail = tail;
		reader->tail_size = size;
	}
	memcpy(reader->tail + reader->tail_len, reader->input, len);
	reader->tail_len += len;
	reader->input += len;
	reader->input_len -= len;
	return true;
}

/* The tail's reply was handed out and is not needed any more. */
static void
tail_drop(ZarisReader *reader)
{
	reader->tail_len = 0;
	reader->tail_spent = false;
	if (reader->tail_size > KEEP_TAIL)
	{
		free(reader->tail);
		reader->tail = NULL;
		reader->tail_size = 0;
	}
}

void
zaris_reader_init(ZarisReader *reader)
{
	memset(reader, 0, sizeof(*reader));
}

void
zaris_reader_reset(ZarisReader *reader)
{
	free(reader->tail);
	zaris_reader_init(reader);
}

void
zaris_reader_feed(ZarisReader *reader, const char *data, size_t len)
{
	reader->input = data;
	reader->input_len = len;
}

/* The reply of reader->scanned bytes at data is whole. */
static ZarisReaderStep
reader_hand_out(ZarisReader *reader, const char *data, ZarisReply *reply)
{
	ZarisReplyWalk walk = {data, data + reader->scanned};

	zaris_reply_take(&walk, reply);
	reader->scanned = 0;
	reader->wanted = 0;
	return ZARIS_READER_REPLY;
}

/* How much of the input belongs to the reply in the tail for certain: what is wanted, or else up to a line's end. */
static size_t
reader_share(const ZarisReader *reader)
{
	const char *line_end;

	if (reader->wanted > reader->tail_len)
	{
		size_t missing = reader->wanted - reader->tail_len;

		return missing < reader->input_len ? missing : reader->input_len;
	}
	line_end = memchr(reader->input, '\n', reader->input_len);
	return line_end == NULL ? reader->input_len : (size_t) (line_end + 1 - reader->input);
}

ZarisReaderStep
zaris_reader_next(ZarisReader *reader, ZarisReply *reply)
{
	ZarisReaderStep step;

	if (reader->problem != NULL)
		return ZARIS_READER_BAD;
	if (reader->tail_spent)
		tail_drop(reader);
	if (reader->tail_len == 0)
	{
		if (reader->input_len == 0)
			return ZARIS_READER_MORE;
		step = reader_scan(reader, reader->input, reader->input_len);
		if (step == ZARIS_READER_REPLY)
		{
			const char *data = reader->input;

			reader->input += reader->scanned;
			reader->input_len -= reader->scanned;
			return reader_hand_out(reader, data, reply);
		}
		if (step == ZARIS_READER_MORE && !tail_append(reader, reader->input_len))
			return reader_bad(reader, ZARIS_NO_MEMORY, "out of memory");
		return step;
	}
	while (reader->input_len > 0)
	{
		if (!tail_append(reader, reader_share(reader)))
			return reader_bad(reader, ZARIS_NO_MEMORY, "out of memory");
		if (reader->tail_len < reader->wanted)
			return ZARIS_READER_MORE;
		step = reader_scan(reader, reader->tail, reader->tail_len);
		if (step == ZARIS_READER_REPLY)
		{
			reader->tail_spent = true;
			return reader_hand_out(reader, reader->tail, reply);
		}
		if (step == ZARIS_READER_BAD)
			return step;
	}
	return ZARIS_READER_MORE;
}

bool
zaris_reply_is_aggregate(const ZarisReply *reply)
{
	return reply->type >= ZARIS_REPLY_ARRAY;
}

bool
zaris_reply_is_text(const ZarisReply *reply)
{
	return reply->type == ZARIS_REPLY_SIMPLE || reply->type == ZARIS_REPLY_BULK || reply->type == ZARIS_REPLY_VERBATIM;
}

bool
zaris_reply_is_data(const ZarisReply *reply)
{
	return reply->type == ZARIS_REPLY_BULK || reply->type == ZARIS_REPLY_VERBATIM;
}

bool
zaris_reply_equals(const ZarisReply *reply, const char *text)
{
	return zaris_reply_is_text(reply) && reply->len == strlen(text) && memcmp(reply->data, text, reply->len) == 0;
}

ZarisReplyWalk
zaris_reply_walk(const ZarisReply *aggregate)
{
	ZarisReplyWalk walk = {NULL, NULL}; /* of what is no aggregate: nothing to take */

	if (aggregate->data != NULL)
		walk = (ZarisReplyWalk){aggregate->data, aggregate->data + aggregate->len};
	return walk;
}

/* Pass over `left` items and everything inside them. */
static void
walk_pass(ZarisReplyWalk *walk, size_t left)
{
	Item item;

	while (left > 0 && item_parse(walk->at, walk->end - walk->at, &item) == ITEM_WHOLE)
	{
		walk->at += item.size;
		if (item.reply.type != ZARIS_REPLY_ATTRIBUTE)
			left--;
		left += item.reply.count;
	}
}

bool
zaris_reply_take(ZarisReplyWalk *walk, ZarisReply *reply)
{
	Item item;

	for (;;)
	{
		if (walk->at == NULL || item_parse(walk->at, walk->end - walk->at, &item) != ITEM_WHOLE)
		{
			*reply = (ZarisReply){0};
			return false;
		}
		walk->at += item.size;
		if (item.reply.type != ZARIS_REPLY_ATTRIBUTE)
			break;
		walk_pass(walk, item.reply.count);
	}
	*reply = item.reply;
	if (zaris_reply_is_aggregate(reply))
	{
		/* its elements, and whatever follows them: a walk is only ever taken as far as count says */
		reply->data = walk->at;
		reply->len = walk->end - walk->at;
	}
	return true;
}

void
zaris_reply_skip(ZarisReplyWalk *walk, const ZarisReply *item)
{
	if (zaris_reply_is_aggregate(item))
		walk_pass(walk, item->count);
}
