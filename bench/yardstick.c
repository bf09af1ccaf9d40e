/*
 * yardstick.c
 *	  What the bare engine costs: the work of a benchmark, done by a native client that does nothing else.
 *
 * bench/run measures this program and the SQL statement in turn and prints the ratio.  Blocking sockets, RESP2, one
 * connection a node, two windows of commands in flight a node: window n + 1 is written before the replies
 * of window n are read, so that neither side waits for the other.  The server buffers what it has to say in its
 * own memory, so that a blocking write cannot lock the two up.
 *
 *		yardstick HOST:PORT VERB PREFIX FIRST COUNT [SIZE]
 *
 * Keys are PREFIX (without braces) followed by FIRST .. FIRST + COUNT - 1 in decimal.  Connecting, learning the map and loading the
 * script are not timed.  Prints one line: milliseconds, commands answered, bytes of values received.
 *
 *		load	SET, for setting the stage			get1	GET, each answer awaited before the next
 *		setnx	SET NX								get		GET, pipelined
 *		setxx	SET XX								cas		EVALSHA: compare the content's digest, then SET
 *		del		DEL									scan	SCAN alone: the keys
 *												sum		SCAN, and each page's values in a pipeline
 *
 * An answer that the verb does not expect ends the program: a yardstick that fails half of its work is none.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/sha.h>

#define MAX_NODES  64
#define N_SLOTS	   16384
#define WINDOW	   500	  /* commands written at once to a node; two windows are in flight */
#define PAGE	   "1000" /* SCAN's COUNT */
#define READ_CHUNK 262144

typedef struct Buffer
{
	char  *data;
	size_t used;
	size_t size;
} Buffer;

typedef struct Node
{
	char   host[256];
	int	   port;
	int	   fd;
	Buffer out; /* composed, not written */
	Buffer in;
	size_t taken;	 /* bytes of `in` that were read as tokens */
	int	   composed; /* commands in `out` */
	int	   owed;	 /* replies of windows that were written */
} Node;

/* One RESP token: an aggregate is its head, its elements follow as tokens of their own. */
typedef struct Token
{
	char		type;	/* + - : $ * */
	int64_t		number; /* of : and *; length of $, -1 = nil */
	const char *bytes;	/* + - $: valid until the next token is read */
	size_t		len;
} Token;

typedef enum Verb
{
	VERB_LOAD,
	VERB_GET1,
	VERB_GET,
	VERB_SETNX,
	VERB_SETXX,
	VERB_CAS,
	VERB_DEL,
	VERB_SCAN,
	VERB_SUM,
	VERB_COUNT
} Verb;

static const char *const verb_names[VERB_COUNT] =
	{"load", "get1", "get", "setnx", "setxx", "cas", "del", "scan", "sum"};

/* What a conditional write costs the server: read, digest, compare, write, keep the expiry. */
static const char cas_script[] =
	"local v = redis.call('GET', KEYS[1]) "
	"if not v or string.sub(redis.sha1hex(v), 1, 16) ~= ARGV[1] then return 0 end "
	"redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') return 1";

static Node		nodes[MAX_NODES];
static int		n_nodes;
static int		owner[N_SLOTS];
static char		cas_sha[41];
static uint64_t answered;
static uint64_t received;

static void
fail(const char *format, ...)
{
	va_list args;

	fputs("yardstick: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* ---- bytes ---- */

static void
make_room(Buffer *buffer, size_t more)
{
	if (buffer->used + more <= buffer->size)
		return;
	while (buffer->used + more > buffer->size)
		buffer->size = buffer->size ? buffer->size * 2 : READ_CHUNK;
	buffer->data = realloc(buffer->data, buffer->size);
	if (buffer->data == NULL)
		fail("out of memory");
}

static void
append(Buffer *buffer, const void *data, size_t len)
{
	make_room(buffer, len);
	memcpy(buffer->data + buffer->used, data, len);
	buffer->used += len;
}

static void
append_argument(Buffer *buffer, const char *data, size_t len)
{
	char head[32];

	append(buffer, head, snprintf(head, sizeof(head), "$%zu\r\n", len));
	append(buffer, data, len);
	append(buffer, "\r\n", 2);
}

/* A command whose arguments are NUL-terminated strings; the list ends with NULL. */
static void
compose(Node *node, ...)
{
	const char *argument;
	char		head[32];
	int			n = 0;
	va_list		args;

	va_start(args, node);
	while (va_arg(args, const char *) != NULL)
		n++;
	va_end(args);
	append(&node->out, head, snprintf(head, sizeof(head), "*%d\r\n", n));
	va_start(args, node);
	while ((argument = va_arg(args, const char *)) != NULL)
		append_argument(&node->out, argument, strlen(argument));
	va_end(args);
	node->composed++;
}

static void
flush(Node *node)
{
	size_t done = 0;

	while (done < node->out.used)
	{
		ssize_t n = write(node->fd, node->out.data + done, node->out.used - done);

		if (n < 0 && errno != EINTR)
			fail("could not write to %s:%d: %s", node->host, node->port, strerror(errno));
		if (n > 0)
			done += n;
	}
	node->owed += node->composed;
	node->composed = 0;
	node->out.used = 0;
}

/* ---- replies ---- */

static void
fill(Node *node)
{
	ssize_t n;

	/* move what is left to the front only here, so that a token's bytes stay where they are until the next one */
	memmove(node->in.data, node->in.data + node->taken, node->in.used - node->taken);
	node->in.used -= node->taken;
	node->taken = 0;
	make_room(&node->in, READ_CHUNK);
	do
		n = read(node->fd, node->in.data + node->in.used, node->in.size - node->in.used);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		fail("%s:%d closed the connection", node->host, node->port);
	node->in.used += n;
}

/* Offset of the line's \r\n from `taken`, filling until it is there. */
static size_t
line_length(Node *node)
{
	size_t seen = 0;

	for (;;)
	{
		size_t left = node->in.used - node->taken;
		char  *start = node->in.data + node->taken;
		char  *end = left > seen ? memchr(start + seen, '\n', left - seen) : NULL;

		if (end != NULL && end > start && end[-1] == '\r')
			return end - 1 - start;
		seen = left;
		fill(node);
	}
}

static void
next_token(Node *node, Token *token)
{
	size_t len;
	char  *line;

	if (node->taken == node->in.used)
		fill(node);
	len = line_length(node);
	line = node->in.data + node->taken;
	token->type = line[0];
	token->bytes = line + 1;
	token->len = len - 1;
	token->number = strtoll(line + 1, NULL, 10);
	if (token->type != '$' || token->number < 0)
	{
		node->taken += len + 2;
		return;
	}

	/* a bulk string: all of it must lie in the buffer */
	while (node->in.used - node->taken < len + 2 + (size_t) token->number + 2)
		fill(node);
	token->bytes = node->in.data + node->taken + len + 2;
	token->len = token->number;
	node->taken += len + 2 + token->number + 2;
}

/* Read past one whole value whose head was read. */
static void
skip_rest(Node *node, const Token *head)
{
	Token token;

	if (head->type != '*')
		return;
	for (int64_t i = 0; i < head->number; i++)
	{
		next_token(node, &token);
		skip_rest(node, &token);
	}
}

static void
refuse(const Node *node, const Token *token)
{
	fail("unexpected answer from %s:%d: %c%.*s", node->host, node->port, token->type,
		 (int) (token->len > 100 ? 100 : token->len), token->bytes ? token->bytes : "");
}

/* ---- nodes and slots ---- */

static void
dial(Node *node)
{
	struct addrinfo	 hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char			 port[16];
	int				 on = 1;

	snprintf(port, sizeof(port), "%d", node->port);
	if (getaddrinfo(node->host, port, &hints, &found) != 0)
		fail("could not resolve %s", node->host);
	node->fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (node->fd < 0 || connect(node->fd, found->ai_addr, found->ai_addrlen) < 0)
		fail("could not connect to %s:%d: %s", node->host, node->port, strerror(errno));
	setsockopt(node->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	freeaddrinfo(found);
}

static int
find_node(const char *host, size_t len, int port)
{
	for (int i = 0; i < n_nodes; i++)
		if (nodes[i].port == port && strlen(nodes[i].host) == len && memcmp(nodes[i].host, host, len) == 0)
			return i;
	if (n_nodes == MAX_NODES || len >= sizeof(nodes[0].host))
		fail("too many nodes, or too long a host name");
	memcpy(nodes[n_nodes].host, host, len);
	nodes[n_nodes].port = port;
	return n_nodes++;
}

/* One entry of CLUSTER SLOTS: first, last, primary, replicas. */
static void
take_range(Node *from)
{
	Token entry,
		first,
		last,
		primary,
		token;
	char host[256];
	int	 id;

	next_token(from, &entry);
	next_token(from, &first);
	next_token(from, &last);
	next_token(from, &primary);
	next_token(from, &token);
	if (entry.type != '*' || entry.number < 3 || primary.type != '*' || token.type != '$' || token.number <= 0)
		refuse(from, &token);
	snprintf(host, sizeof(host), "%.*s", (int) token.len, token.bytes);
	next_token(from, &token);
	id = find_node(host, strlen(host), (int) token.number);
	for (int64_t i = 2; i < primary.number; i++)
	{
		next_token(from, &token);
		skip_rest(from, &token);
	}
	for (int64_t i = 3; i < entry.number; i++)
	{
		next_token(from, &token);
		skip_rest(from, &token);
	}
	for (int64_t slot = first.number; slot <= last.number; slot++)
		if (slot >= 0 && slot < N_SLOTS)
			owner[slot] = id;
}

/* Learn who owns what; a node that is no cluster owns everything (owner[] is all 0). */
static void
connect_all(const char *where)
{
	const char *colon = strrchr(where, ':');
	Token		token;

	if (colon == NULL)
		fail("HOST:PORT expected, not \"%s\"", where);
	find_node(where, colon - where, atoi(colon + 1));
	dial(&nodes[0]);
	compose(&nodes[0], "CLUSTER", "SLOTS", NULL);
	flush(&nodes[0]);
	next_token(&nodes[0], &token);
	if (token.type == '*')
		for (int64_t i = 0; i < token.number; i++)
			take_range(&nodes[0]);
	nodes[0].owed = 0;
	for (int i = 1; i < n_nodes; i++)
		dial(&nodes[i]);
}

/* The whole key's slot (CRC-16/XMODEM): PREFIX has no braces, so there is no hash tag to look for. */
static int
slot_of(const char *key, size_t len)
{
	static uint16_t table[256];
	uint16_t		crc = 0;

	if (table[1] == 0)
		for (int i = 0; i < 256; i++)
		{
			uint16_t c = i << 8;

			for (int bit = 0; bit < 8; bit++)
				c = (c & 0x8000) ? (c << 1) ^ 0x1021 : c << 1;
			table[i] = c;
		}
	for (size_t i = 0; i < len; i++)
		crc = (crc << 8) ^ table[((crc >> 8) ^ (unsigned char) key[i]) & 0xff];
	return crc & (N_SLOTS - 1);
}

/* ---- commands by key ---- */

/* A value of `size` bytes that tells its number; `round` makes the value after an update another one. */
static void
make_value(char *value, int size, long number, int round)
{
	char head[48];
	int	 len = snprintf(head, sizeof(head), "%ld:%d:", number, round);

	memset(value, 'x', size);
	memcpy(value, head, len < size ? len : size);
	value[size] = '\0';
}

static void
content_version(const char *value, int size, char hex[17])
{
	unsigned char digest[SHA_DIGEST_LENGTH];

	SHA1((const unsigned char *) value, size, digest);
	for (int i = 0; i < 8; i++)
		sprintf(hex + 2 * i, "%02x", digest[i]);
}

static void
compose_by_key(Verb verb, Node *node, const char *key, long number, int size)
{
	static char *value,
		*old;
	char version[17];

	if (value == NULL)
	{
		value = malloc(size + 1);
		old = malloc(size + 1);
		if (value == NULL || old == NULL)
			fail("out of memory");
	}
	make_value(value, size, number, verb == VERB_SETXX ? 1 : verb == VERB_CAS ? 2
																			  : 0);
	switch (verb)
	{
		case VERB_LOAD:
			compose(node, "SET", key, value, NULL);
			break;
		case VERB_SETNX:
			compose(node, "SET", key, value, "NX", NULL);
			break;
		case VERB_SETXX:
			compose(node, "SET", key, value, "XX", NULL);
			break;
		case VERB_CAS:
			make_value(old, size, number, 1);
			content_version(old, size, version);
			compose(node, "EVALSHA", cas_sha, "1", key, version, value, NULL);
			break;
		case VERB_DEL:
			compose(node, "DEL", key, NULL);
			break;
		default:
			compose(node, "GET", key, NULL);
	}
}

static void
take_answer(Verb verb, Node *node)
{
	Token token;
	bool  good;

	next_token(node, &token);
	switch (verb)
	{
		case VERB_LOAD:
		case VERB_SETNX:
		case VERB_SETXX:
			good = token.type == '+';
			break;
		case VERB_CAS:
		case VERB_DEL:
			good = token.type == ':' && token.number == 1;
			break;
		default:
			good = token.type == '$' && token.number >= 0;
			received += good ? token.number : 0;
	}
	if (!good)
		refuse(node, &token);
	answered++;
	node->owed--;
}

static void
run_by_key(Verb verb, const char *prefix, long first, long count, int size)
{
	int	 window = verb == VERB_GET1 ? 1 : WINDOW;
	char key[256];

	for (long i = first; i < first + count; i++)
	{
		int	  len = snprintf(key, sizeof(key), "%s%ld", prefix, i);
		Node *node = &nodes[owner[slot_of(key, len)]];
		int	  before = node->owed;

		compose_by_key(verb, node, key, i, size);
		if (node->composed < window)
			continue;
		flush(node);
		/* the window before this one; with a window of 1 (get1) nothing may stay in flight */
		for (int n = window == 1 ? 1 : before; n > 0; n--)
			take_answer(verb, node);
	}
	for (int i = 0; i < n_nodes; i++)
		flush(&nodes[i]);
	for (int i = 0; i < n_nodes; i++)
		while (nodes[i].owed > 0)
			take_answer(verb, &nodes[i]);
}

/* ---- scans ---- */

/*
 * Take one page. Its keys' GETs (sum) and the next page's SCAN are composed for one write. Returns the page's keys, and
 * false in *more after the last page.
 */
static int64_t
take_page(Node *node, bool values, const char *pattern, bool *more)
{
	Token	token;
	char	cursor[32];
	char	key[256];
	int64_t n;

	next_token(node, &token);
	if (token.type != '*' || token.number != 2)
		refuse(node, &token);
	next_token(node, &token);
	snprintf(cursor, sizeof(cursor), "%.*s", (int) token.len, token.bytes);
	next_token(node, &token);
	n = token.number;
	for (int64_t i = 0; i < n; i++)
	{
		next_token(node, &token);
		snprintf(key, sizeof(key), "%.*s", (int) token.len, token.bytes);
		if (values)
			compose(node, "GET", key, NULL);
	}
	*more = strcmp(cursor, "0") != 0;
	if (*more)
		compose(node, "SCAN", cursor, "MATCH", pattern, "COUNT", PAGE, NULL);
	return n;
}

static void
run_scan(Verb verb, const char *prefix)
{
	bool	more[MAX_NODES];
	int64_t page[MAX_NODES];
	char	pattern[256];
	int		left = n_nodes;

	snprintf(pattern, sizeof(pattern), "%s*", prefix);
	for (int i = 0; i < n_nodes; i++)
	{
		more[i] = true;
		page[i] = 0;
		compose(&nodes[i], "SCAN", "0", "MATCH", pattern, "COUNT", PAGE, NULL);
		flush(&nodes[i]);
	}
	while (left > 0)
	{
		/* in this order the other nodes work while this one's page is taken */
		for (int i = 0; i < n_nodes; i++)
		{
			/* the values of the page before lie in front of the page asked for with them */
			if (verb == VERB_SUM)
				for (; page[i] > 0; page[i]--)
					take_answer(VERB_GET, &nodes[i]);
			if (!more[i])
				continue;
			page[i] = take_page(&nodes[i], verb == VERB_SUM, pattern, &more[i]);
			if (verb == VERB_SCAN)
				answered += page[i];
			flush(&nodes[i]);
		}
		left = 0;
		for (int i = 0; i < n_nodes; i++)
			left += more[i] || (verb == VERB_SUM && page[i] > 0);
	}
}

/* ---- the program ---- */

static void
load_script(void)
{
	Token token;

	for (int i = 0; i < n_nodes; i++)
	{
		compose(&nodes[i], "SCRIPT", "LOAD", cas_script, NULL);
		flush(&nodes[i]);
		next_token(&nodes[i], &token);
		if (token.type != '$' || token.len != 40)
			refuse(&nodes[i], &token);
		memcpy(cas_sha, token.bytes, 40);
		nodes[i].owed = 0;
	}
}

static double
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int
main(int argc, char **argv)
{
	Verb verb = VERB_COUNT;
	long first,
		count;
	int	   size;
	double start;

	if (argc >= 6)
		for (verb = 0; verb < VERB_COUNT; verb++)
			if (strcmp(argv[2], verb_names[verb]) == 0)
				break;
	if (verb == VERB_COUNT)
		fail("usage: yardstick HOST:PORT load|get1|get|setnx|setxx|cas|del|scan|sum PREFIX FIRST COUNT [SIZE]");
	if (strchr(argv[3], '{') != NULL)
		fail("PREFIX must not contain a brace");
	first = atol(argv[4]);
	count = atol(argv[5]);
	size = argc > 6 ? atoi(argv[6]) : 100;
	connect_all(argv[1]);
	if (verb == VERB_CAS)
		load_script();

	start = now_ms();
	if (verb == VERB_SCAN || verb == VERB_SUM)
		run_scan(verb, argv[3]);
	else
		run_by_key(verb, argv[3], first, count, size);
	printf("%.3f %llu %llu\n", now_ms() - start, (unsigned long long) answered, (unsigned long long) received);
	if (answered < (uint64_t) count)
		fail("%llu answers where %ld were expected", (unsigned long long) answered, count);
	return 0;
}
