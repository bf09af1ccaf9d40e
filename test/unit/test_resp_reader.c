/*
 * test_resp_reader.c
 *	  The RESP reader: every type, split at every byte; hostile input; mutations.
 *
 * A reply is written down in one line, and so compared:	[a, <b>, 7, nil, {k, v}, -ERR no]
 */
#include "stores/resp/reader.h"

#include <stdlib.h>

#include "test.h"

static char	  written[8192];
static size_t written_len;

static void
put_text(const char *data, size_t len)
{
	if (written_len + len >= sizeof(written))
		len = sizeof(written) - 1 - written_len;
	if (len > 0)
		memcpy(written + written_len, data, len);
	written_len += len;
	written[written_len] = '\0';
}

static void
put(const char *text)
{
	put_text(text, strlen(text));
}

static void write_reply(const ZarisReply *reply, ZarisReplyWalk *walk);

static void
write_elements(const ZarisReply *reply, ZarisReplyWalk *walk, const char *open, const char *close)
{
	put(open);
	for (size_t i = 0; i < reply->count; i++)
	{
		ZarisReply item;

		CHECK(zaris_reply_take(walk, &item));
		if (i > 0)
			put(", ");
		write_reply(&item, walk);
	}
	put(close);
}

static void
write_reply(const ZarisReply *reply, ZarisReplyWalk *walk)
{
	char number[32];

	switch (reply->type)
	{
		case ZARIS_REPLY_NIL:
			put("nil");
			break;
		case ZARIS_REPLY_SIMPLE:
			put("+");
			put_text(reply->data, reply->len);
			break;
		case ZARIS_REPLY_ERROR:
			put("-");
			put_text(reply->data, reply->len);
			break;
		case ZARIS_REPLY_BULK:
			put("<");
			put_text(reply->data, reply->len);
			put(">");
			break;
		case ZARIS_REPLY_VERBATIM:
			put("=");
			put_text(reply->data, reply->len);
			break;
		case ZARIS_REPLY_DOUBLE:
		case ZARIS_REPLY_BIG_NUMBER:
			put(reply->type == ZARIS_REPLY_DOUBLE ? "," : "(");
			put_text(reply->data, reply->len);
			break;
		case ZARIS_REPLY_BOOLEAN:
			put(reply->integer ? "true" : "false");
			break;
		case ZARIS_REPLY_INTEGER:
			snprintf(number, sizeof(number), "%" PRId64, reply->integer);
			put(number);
			break;
		case ZARIS_REPLY_ARRAY:
			write_elements(reply, walk, "[", "]");
			break;
		case ZARIS_REPLY_MAP:
			write_elements(reply, walk, "{", "}");
			break;
		case ZARIS_REPLY_SET:
			write_elements(reply, walk, "~(", ")");
			break;
		case ZARIS_REPLY_PUSH:
			write_elements(reply, walk, ">(", ")");
			break;
		case ZARIS_REPLY_ATTRIBUTE:
			put("ATTRIBUTE");
			break;
	}
}

/* Everything that the reader says of the next piece. A piece lives in memory of its own, so that reading on is seen. */
static ZarisReaderStep
read_piece(ZarisReader *reader, const char *data, size_t len)
{
	char		   *piece = malloc(len > 0 ? len : 1);
	ZarisReaderStep step;
	ZarisReply		reply;

	memcpy(piece, data, len);
	zaris_reader_feed(reader, piece, len);
	while ((step = zaris_reader_next(reader, &reply)) == ZARIS_READER_REPLY)
	{
		ZarisReplyWalk walk = zaris_reply_walk(&reply);

		write_reply(&reply, &walk);
		put(";");
	}
	free(piece);
	return step;
}

static void
start(ZarisReader *reader)
{
	zaris_reader_init(reader);
	written_len = 0;
	written[0] = '\0';
}

typedef struct Case
{
	const char *bytes;
	size_t		len;
	const char *replies;
} Case;

#define CASE(bytes, replies) \
	{ \
		bytes, sizeof(bytes) - 1, replies \
	}

static const Case good[] = {
	CASE("+OK\r\n", "+OK;"),
	CASE("+\r\n", "+;"),
	CASE("-ERR no\r\n", "-ERR no;"),
	CASE(":0\r\n:-1\r\n:+7\r\n", "0;-1;7;"),
	CASE(":9223372036854775807\r\n:-9223372036854775808\r\n", "9223372036854775807;-9223372036854775808;"),
	CASE("$0\r\n\r\n", "<>;"),
	CASE("$-1\r\n*-1\r\n_\r\n", "nil;nil;nil;"),
	CASE("$5\r\na\r\nb\r\r\n", "<a\r\nb\r>;"),
	CASE("*0\r\n%0\r\n~0\r\n", "[];{};~();"),
	CASE("*3\r\n$1\r\na\r\n:7\r\n$-1\r\n+x\r\n", "[<a>, 7, nil];+x;"),
	CASE("*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n*0\r\n", "[[1, 2], [[]]];"),
	CASE("%2\r\n+k\r\n:1\r\n$1\r\nl\r\n*1\r\n:2\r\n", "{+k, 1, <l>, [2]};"),
	CASE("~2\r\n:1\r\n:2\r\n", "~(1, 2);"),
	CASE("#t\r\n#f\r\n", "true;false;"),
	CASE(",1.5\r\n,inf\r\n,-inf\r\n,nan\r\n,1e-7\r\n", ",1.5;,inf;,-inf;,nan;,1e-7;"),
	CASE("(-12345678901234567890123\r\n", "(-12345678901234567890123;"),
	CASE("=7\r\ntxt:a\nb\r\n=4\r\ntxt:\r\n", "=a\nb;=;"),
	CASE("!5\r\nERR\rx\r\n", "-ERR\rx;"),
	CASE(">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n:5\r\n", ">(+invalidate, [<k>]);5;"),
	CASE("|1\r\n+ttl\r\n:10\r\n:5\r\n", "5;"),
	CASE("|0\r\n:5\r\n", "5;"),
	CASE("|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n*2\r\n:3\r\n|1\r\n+b\r\n%1\r\n:1\r\n:2\r\n:4\r\n:6\r\n", "[3, 4];6;"),
	CASE("*1\r\n|1\r\n+a\r\n:1\r\n*1\r\n|1\r\n|1\r\n:1\r\n:2\r\n+b\r\n:1\r\n$2\r\nhi\r\n", "[[<hi>]];"),
	CASE("*2\r\n$3\r\n\0\r\n\r\n$0\r\n\r\n:1\r\n", NULL), /* a_nul_is_data(): a text cannot hold it */
};

static const Case bad[] = {
	CASE("x\r\n", NULL),
	CASE("\r\n", NULL),
	CASE("\n", NULL),
	CASE("\0", NULL),
	CASE("HTTP/1.1 400 Bad Request\r\n", NULL),
	CASE("\x15\x03\x01\x00\x02\x02\x0a", NULL), /* a TLS alert */
	CASE("+OK\n", NULL),
	CASE("+O\nK\r\n", NULL),
	CASE("+OK\rx", NULL),
	CASE("+OK\r\r\n", NULL),
	CASE(":\r\n", NULL),
	CASE(":-\r\n", NULL),
	CASE(":1x\r\n", NULL),
	CASE(": 1\r\n", NULL),
	CASE(":--1\r\n", NULL),
	CASE(":9223372036854775808\r\n", NULL),
	CASE(":-9223372036854775809\r\n", NULL),
	CASE(":99999999999999999999999999\r\n", NULL),
	CASE(":00000000000000000000000000000000000001\r\n", NULL),
	CASE("$-2\r\n", NULL),
	CASE("$-0\r\n", NULL),
	CASE("$\r\n", NULL),
	CASE("$+5\r\n", NULL),
	CASE("$5x\r\n", NULL),
	CASE("$?\r\n", NULL),
	CASE("$536870913\r\n", NULL),
	CASE("$4294967295\r\n", NULL),
	CASE("$4294967297\r\n", NULL),
	CASE("$18446744073709551616\r\n", NULL),
	CASE("$99999999999999999999\r\n", NULL),
	CASE("$3\r\nabcd\r\n", NULL),
	CASE("$3\r\nabc\n\n", NULL),
	CASE("*-2\r\n", NULL),
	CASE("*\r\n", NULL),
	CASE("*?\r\n", NULL),
	CASE("*4294967295\r\n", NULL),
	CASE("*444444442\r\n", NULL),
	CASE("*33554433\r\n", NULL),
	CASE("*99999999999999999999\r\n", NULL),
	CASE("%-1\r\n", NULL),
	CASE("%16777217\r\n", NULL),
	CASE("%9223372036854775808\r\n", NULL),
	CASE("%?\r\n", NULL),
	CASE("~-1\r\n", NULL),
	CASE(">-1\r\n", NULL),
	CASE("|-1\r\n", NULL),
	CASE("*1\r\n>1\r\n:1\r\n", NULL),
	CASE("_x\r\n", NULL),
	CASE("#\r\n", NULL),
	CASE("#x\r\n", NULL),
	CASE("#tt\r\n", NULL),
	CASE(",\r\n", NULL),
	CASE(",x\r\n", NULL),
	CASE("(\r\n", NULL),
	CASE("(-\r\n", NULL),
	CASE("(1x\r\n", NULL),
	CASE("=3\r\ntxt\r\n", NULL),
	CASE("=4\r\ntxtx\r\n", NULL),
	CASE("=-1\r\n", NULL),
	CASE("!-1\r\n", NULL),
	CASE(";4\r\nabcd\r\n", NULL),
	CASE(".\r\n", NULL),
	CASE("*2\r\n:1\r\nx\r\n", NULL),
};

TEST(every_type_split_at_every_byte)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		const Case *one = &good[i];

		if (one->replies == NULL)
			continue;
		for (size_t at = 0; at <= one->len; at++)
		{
			ZarisReader reader;

			start(&reader);
			CHECK_INT(ZARIS_READER_MORE, read_piece(&reader, one->bytes, at));
			CHECK_INT(ZARIS_READER_MORE, read_piece(&reader, one->bytes + at, one->len - at));
			CHECK_TEXT(one->replies, written);
			zaris_reader_reset(&reader);
		}
	}
}

TEST(every_type_byte_by_byte)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		const Case *one = &good[i];
		ZarisReader reader;

		if (one->replies == NULL)
			continue;
		start(&reader);
		for (size_t at = 0; at < one->len; at++)
			CHECK_INT(ZARIS_READER_MORE, read_piece(&reader, one->bytes + at, 1));
		CHECK_TEXT(one->replies, written);
		zaris_reader_reset(&reader);
	}
}

TEST(a_nul_is_data)
{
	const Case *one = &good[sizeof(good) / sizeof(good[0]) - 1];
	ZarisReader reader;

	start(&reader);
	read_piece(&reader, one->bytes, one->len);
	CHECK_BYTES("[<\0\r\n>, <>];1;", written, written_len);
	zaris_reader_reset(&reader);
}

TEST(a_whole_reply_is_not_copied)
{
	static const char bytes[] = "$3\r\nabc\r\n";
	ZarisReader		  reader;
	ZarisReply		  reply;

	zaris_reader_init(&reader);
	zaris_reader_feed(&reader, bytes, sizeof(bytes) - 1);
	CHECK_INT(ZARIS_READER_REPLY, zaris_reader_next(&reader, &reply));
	CHECK(reply.data == bytes + 4);
	CHECK(reader.tail == NULL);
	zaris_reader_reset(&reader);
}

/* Whatever the split, garbage is found, and found for good. */
TEST(hostile_input_split_at_every_byte)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		for (size_t at = 0; at <= bad[i].len; at++)
		{
			ZarisReader reader;
			ZarisReply	reply;

			start(&reader);
			if (read_piece(&reader, bad[i].bytes, at) != ZARIS_READER_BAD)
				CHECK_INT(ZARIS_READER_BAD, read_piece(&reader, bad[i].bytes + at, bad[i].len - at));
			CHECK_INT(ZARIS_PROTOCOL_ERROR, reader.status);
			CHECK(reader.problem != NULL);
			zaris_reader_feed(&reader, "+OK\r\n", 5);
			CHECK_INT(ZARIS_READER_BAD, zaris_reader_next(&reader, &reply));
			CHECK(written_len == 0);
			if (reader.problem == NULL)
				printf("# not refused: %s\n", bad[i].bytes);
			zaris_reader_reset(&reader);
		}
	}
}

/* A length that is merely announced costs nothing. */
TEST(nothing_is_allocated_for_an_announcement)
{
	static const char *const announcements[] = {
		"*33554432\r\n", "$536870912\r\n", "%16777216\r\n", "*2\r\n*33554432\r\n:1\r\n", "=536870912\r\ntxt:"};

	for (size_t i = 0; i < sizeof(announcements) / sizeof(announcements[0]); i++)
	{
		ZarisReader reader;

		start(&reader);
		CHECK_INT(ZARIS_READER_MORE, read_piece(&reader, announcements[i], strlen(announcements[i])));
		CHECK(reader.tail_size <= 4096);
		zaris_reader_reset(&reader);
	}
}

static ZarisReaderStep
read_repeated(const char *unit, int times)
{
	ZarisReader		reader;
	ZarisReaderStep step = ZARIS_READER_MORE;

	start(&reader);
	for (int i = 0; i < times && step == ZARIS_READER_MORE; i++)
		step = read_piece(&reader, unit, strlen(unit));
	CHECK(reader.tail_size <= 1 << 20);
	zaris_reader_reset(&reader);
	return step;
}

TEST(depth_is_bounded)
{
	CHECK_INT(ZARIS_READER_MORE, read_repeated("*1\r\n", ZARIS_READER_MAX_DEPTH));
	CHECK_INT(ZARIS_READER_BAD, read_repeated("*1\r\n", ZARIS_READER_MAX_DEPTH + 1));
	CHECK_INT(ZARIS_READER_BAD, read_repeated("*1\r\n", 1000000));
	CHECK_INT(ZARIS_READER_BAD, read_repeated("|1\r\n", 1000000));
}

TEST(lines_are_bounded)
{
	CHECK_INT(ZARIS_READER_BAD, read_repeated("+", (int) ZARIS_READER_MAX_LINE * 2));
	CHECK_INT(ZARIS_READER_BAD, read_repeated("-xxxxxxxxxxxxxxx", (int) ZARIS_READER_MAX_LINE));
	CHECK_INT(ZARIS_READER_BAD, read_repeated("$1", 40));
	CHECK_INT(ZARIS_READER_BAD, read_repeated(":1", 40));
	CHECK_INT(ZARIS_READER_BAD, read_repeated(",1", 4000));
}

/* A large reply in small pieces: its end is found without looking at it again and again. */
TEST(large_replies_in_pieces)
{
	size_t			size = 3 * 1000 * 1000;
	char		   *bytes = malloc(size);
	size_t			len = 0;
	ZarisReader		reader;
	ZarisReply		reply;
	ZarisReply		item;
	ZarisReplyWalk	walk;
	size_t			n = 0;
	ZarisReaderStep step = ZARIS_READER_MORE;

	len += (size_t) sprintf(bytes, "*200000\r\n");
	for (int i = 0; i < 200000; i++)
		len += (size_t) sprintf(bytes + len, "$6\r\n%06d\r\n", i);
	zaris_reader_init(&reader);
	for (size_t at = 0; at < len; at += 7)
	{
		zaris_reader_feed(&reader, bytes + at, len - at < 7 ? len - at : 7);
		step = zaris_reader_next(&reader, &reply);
		CHECK(at + 7 >= len || step == ZARIS_READER_MORE);
	}
	CHECK_INT(ZARIS_READER_REPLY, step);
	walk = zaris_reply_walk(&reply);
	while (n < reply.count && zaris_reply_take(&walk, &item))
		CHECK_INT((int) n++, atoi(item.data));
	CHECK_INT(200000, n);
	CHECK_INT(ZARIS_READER_MORE, zaris_reader_next(&reader, &reply));
	CHECK(reader.tail == NULL); /* given back */
	zaris_reader_reset(&reader);
	free(bytes);
}

TEST(skipping)
{
	static const char bytes[] = "*3\r\n*2\r\n:1\r\n%1\r\n+a\r\n*1\r\n:2\r\n|1\r\n+x\r\n*1\r\n:9\r\n$1\r\nb\r\n:3\r\n";
	ZarisReader		  reader;
	ZarisReply		  reply;
	ZarisReply		  item;
	ZarisReplyWalk	  walk;

	zaris_reader_init(&reader);
	zaris_reader_feed(&reader, bytes, sizeof(bytes) - 1);
	CHECK_INT(ZARIS_READER_REPLY, zaris_reader_next(&reader, &reply));
	walk = zaris_reply_walk(&reply);
	CHECK(zaris_reply_take(&walk, &item) && item.type == ZARIS_REPLY_ARRAY);
	zaris_reply_skip(&walk, &item);
	CHECK(zaris_reply_take(&walk, &item) && zaris_reply_equals(&item, "b"));
	zaris_reply_skip(&walk, &item);
	CHECK(zaris_reply_take(&walk, &item) && item.integer == 3);
	CHECK(!zaris_reply_take(&walk, &item));
	zaris_reader_reset(&reader);
}

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Any byte may be another one, be missing or be there twice; any split.  Nothing may crash, and whole input must read the
 * same in whatever pieces it comes.
 */
TEST(mutations)
{
	uint64_t state = UINT64_C(0x9E3779B97F4A7C15);

	for (int round = 0; round < 40000; round++)
	{
		const Case	   *one = &good[next_random(&state) % (sizeof(good) / sizeof(good[0]))];
		const Case	   *two = &good[next_random(&state) % (sizeof(good) / sizeof(good[0]))];
		char			bytes[512];
		char			first[sizeof(written)];
		size_t			len = one->len + two->len;
		size_t			at = 0;
		ZarisReader		reader;
		ZarisReaderStep whole;
		ZarisReaderStep step = ZARIS_READER_MORE;

		memcpy(bytes, one->bytes, one->len);
		memcpy(bytes + one->len, two->bytes, two->len);
		for (uint64_t n = next_random(&state) % 4; n > 0; n--)
		{
			static const char telling[] = "\r\n$*%~>|=!:#_,(+-0123456789?\0\xff";

			bytes[next_random(&state) % len] = telling[next_random(&state) % (sizeof(telling) - 1)];
		}
		start(&reader);
		whole = read_piece(&reader, bytes, len);
		zaris_reader_reset(&reader);
		memcpy(first, written, sizeof(first));

		start(&reader);
		while (at < len && step != ZARIS_READER_BAD)
		{
			size_t piece = 1 + next_random(&state) % 9;

			if (piece > len - at)
				piece = len - at;
			step = read_piece(&reader, bytes + at, piece);
			at += piece;
		}
		CHECK_INT(whole, step);
		CHECK_TEXT(first, written);
		zaris_reader_reset(&reader);
	}
}

TEST(digits)
{
	uint64_t number = 99;

	CHECK(zaris_digits("0", 1, 0, &number) && number == 0);
	CHECK(!zaris_digits("1", 1, 0, &number));
	CHECK(!zaris_digits("9", 1, 5, &number));
	CHECK(zaris_digits("65535", 5, 65535, &number) && number == 65535);
	CHECK(!zaris_digits("65536", 5, 65535, &number));
	CHECK(!zaris_digits("", 0, 65535, &number));
	CHECK(!zaris_digits("+1", 2, 65535, &number));
	CHECK(!zaris_digits("-1", 2, 65535, &number));
	CHECK(!zaris_digits(" 1", 2, 65535, &number));
	CHECK(!zaris_digits("0x1", 3, 65535, &number));
	CHECK(zaris_digits("18446744073709551615", 20, UINT64_MAX, &number) && number == UINT64_MAX);
	CHECK(!zaris_digits("18446744073709551616", 20, UINT64_MAX, &number));
	CHECK(!zaris_digits("018446744073709551615", 21, UINT64_MAX, &number));
	CHECK(!zaris_digits("9999999999999999999999999999999999999999", 40, UINT64_MAX, &number));
}

int
main(void)
{
	RUN(every_type_split_at_every_byte);
	RUN(every_type_byte_by_byte);
	RUN(a_nul_is_data);
	RUN(a_whole_reply_is_not_copied);
	RUN(hostile_input_split_at_every_byte);
	RUN(nothing_is_allocated_for_an_announcement);
	RUN(depth_is_bounded);
	RUN(lines_are_bounded);
	RUN(large_replies_in_pieces);
	RUN(skipping);
	RUN(mutations);
	RUN(digits);
	return test_end();
}
