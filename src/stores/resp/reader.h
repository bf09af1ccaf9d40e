/*
 * reader.h
 *	  Bytes of a connection -> whole replies, RESP2 and RESP3.  Incremental, bounded, without a tree of objects.
 *
 * A reply is handed out once all of it is there, as a ZarisReply that points into the caller's buffer where the reply
 * lies in it whole (the usual case: nothing is copied), else into the reader's tail.  Elements of an aggregate are read
 * from the same bytes by a walk, in the order in which they were sent:
 *
 *		zaris_reader_feed(&reader, data, len);
 *		while ((step = zaris_reader_next(&reader, &reply)) == ZARIS_READER_REPLY)
 *		{
 *			walk = zaris_reply_walk(&reply);
 *			for (size_t i = 0; i < reply.count; i++)
 *			{
 *				zaris_reply_take(&walk, &item);		-- and then its own elements, in the same walk,
 *				zaris_reply_skip(&walk, &item);		-- or this
 *			}
 *		}
 *		-- MORE: what was left over is in the tail; feed again.  BAD: close the connection.
 *
 * A reply is valid until the next call of next, feed, reset or free, and not longer than the data that was fed.
 *
 * Every length is bounded before anything is allocated (I15), and memory grows with the bytes that have come, never
 * with a length that was merely announced.  Attributes are skipped.  Pushes are handed out as such.  Streamed
 * aggregates and strings are refused: no server sends them.
 */
#ifndef ZARIS_RESP_READER_H
#define ZARIS_RESP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/status.h"

/* bounds: proto-max-bulk-len's default, and more than any reply that we ask for needs */
#define ZARIS_READER_MAX_BULK	  ((size_t) 512 * 1024 * 1024)
#define ZARIS_READER_MAX_REPLY	  ((size_t) 1024 * 1024 * 1024 + 65536)
#define ZARIS_READER_MAX_ELEMENTS ((size_t) 1 << 25) /* of one aggregate; a map's keys and values count apart */
#define ZARIS_READER_MAX_DEPTH	  16
#define ZARIS_READER_MAX_LINE	  ((size_t) 64 * 1024) /* simple strings, errors, big numbers */

typedef enum ZarisReplyType
{
	ZARIS_REPLY_NIL,		/* $-1, *-1 or _: not an empty string (I9) */
	ZARIS_REPLY_SIMPLE,		/* + */
	ZARIS_REPLY_ERROR,		/* - or ! */
	ZARIS_REPLY_INTEGER,	/* : */
	ZARIS_REPLY_BULK,		/* $ */
	ZARIS_REPLY_VERBATIM,	/* =, without its "txt:" */
	ZARIS_REPLY_DOUBLE,		/* , as text */
	ZARIS_REPLY_BOOLEAN,	/* # */
	ZARIS_REPLY_BIG_NUMBER, /* ( as text */
	ZARIS_REPLY_ARRAY,		/* * */
	ZARIS_REPLY_MAP,		/* % */
	ZARIS_REPLY_SET,		/* ~ */
	ZARIS_REPLY_PUSH,		/* > */
	ZARIS_REPLY_ATTRIBUTE	/* |; never handed out */
} ZarisReplyType;

typedef struct ZarisReply
{
	ZarisReplyType type;
	int64_t		   integer; /* INTEGER; BOOLEAN: 0 or 1 */
	const char	  *data;	/* text of a string, error or number; an aggregate's elements, encoded */
	size_t		   len;
	size_t		   count; /* direct elements of an aggregate; a map's keys and values each count one */
} ZarisReply;

/* A position among the elements of one reply. */
typedef struct ZarisReplyWalk
{
	const char *at;
	const char *end;
} ZarisReplyWalk;

typedef enum ZarisReaderStep
{
	ZARIS_READER_REPLY,
	ZARIS_READER_MORE,
	ZARIS_READER_BAD /* for good: reader->status and ->problem say why */
} ZarisReaderStep;

typedef struct ZarisReader
{
	const char *input; /* what was fed and not yet used; the caller's */
	size_t		input_len;

	char  *tail; /* the beginning of a reply whose end has not come */
	size_t tail_len;
	size_t tail_size;
	bool   tail_spent; /* the reply in it was handed out */

	/* how far the present reply was looked at, so that nothing is looked at again for each piece that comes */
	size_t scanned; /* bytes of whole items */
	size_t wanted;	/* bytes that the reply has at least, when known; else 0: up to a line's end */
	int	   depth;
	bool   is_attribute[ZARIS_READER_MAX_DEPTH];
	size_t left[ZARIS_READER_MAX_DEPTH]; /* elements still to come, one level each */

	ZarisStatus status;	 /* ProtocolError, TooLarge or NoMemory */
	const char *problem; /* a static text once BAD */
} ZarisReader;

extern void zaris_reader_init(ZarisReader *reader);
extern void zaris_reader_reset(ZarisReader *reader); /* for a new connection; gives memory back */

/* Only when everything fed before was taken out (next said MORE). */
extern void			   zaris_reader_feed(ZarisReader *reader, const char *data, size_t len);
extern ZarisReaderStep zaris_reader_next(ZarisReader *reader, ZarisReply *reply);

extern bool zaris_reply_is_aggregate(const ZarisReply *reply);
extern bool zaris_reply_is_text(const ZarisReply *reply);				   /* simple, bulk or verbatim */
extern bool zaris_reply_is_data(const ZarisReply *reply);				   /* what keys and values come as: a status is none of them */
extern bool zaris_reply_equals(const ZarisReply *reply, const char *text); /* a text with these bytes */

extern ZarisReplyWalk zaris_reply_walk(const ZarisReply *aggregate);
extern bool			  zaris_reply_take(ZarisReplyWalk *walk, ZarisReply *item);		  /* false: there is none left */
extern void			  zaris_reply_skip(ZarisReplyWalk *walk, const ZarisReply *item); /* pass over the elements of what was just taken */

/*
 * Decimal digits -> number: true when text is 1 .. 20 digits and the number is at most `most`.  No sign, no blanks.
 * For everything that the wire says in digits.
 */
extern bool zaris_digits(const char *text, size_t len, uint64_t most, uint64_t *number);

#endif /* ZARIS_RESP_READER_H */
