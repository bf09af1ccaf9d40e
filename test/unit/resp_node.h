/*
 * resp_node.h
 *	  A scripted node for the tests of the RESP driver, which lives in the test's own process: expect this, say that,
 *	  close.  And the client's side: a store that was opened by the test, which takes the answers itself.
 *
 * A script is a list of steps.  A step waits for one command, whose words must be those given (a word of more than 48
 * bytes, a script's text, is written #, a script's digest %), then says something, and perhaps closes.  "(connect)"
 * stands for a connection's coming.  What comes when no step is left, or is not what the step waits for, is a failure.
 *
 *		static const Step steps[] = {HELLO, {"GET a", "$1\r\nv\r\n"}, END};
 *
 *		begin(steps);
 *		submit(one = get("a"));
 *		run_until(&n_answers, 1);
 *		check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
 *		end();
 *
 * It is all in the header because a check counts in the file that it stands in.
 */
#ifndef ZARIS_RESP_NODE_H
#define ZARIS_RESP_NODE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "stores/resp/resp.h"
#include "test.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no test needs all of it */

/* the node */

typedef enum After
{
	STAY,
	CLOSE,
	HANG /* read nothing more */
} After;

typedef struct Step
{
	const char *expect;
	const char *say; /* NULL = nothing */
	After		after;
} Step;

#define MAX_PEERS 16

typedef struct Peer
{
	int	   fd; /* -1 = none */
	bool   hangs;
	char  *in;
	size_t in_len;
	size_t in_size;
} Peer;

static struct
{
	int			listener;
	int			port;
	Peer		peers[MAX_PEERS];
	int			n_peers; /* ever accepted */
	const Step *steps;
	bool		byte_by_byte;
	bool		silent; /* script is over: what comes now is ignored */
	int			alone;	/* commands that were alone in the buffer when they came */
} node;

static void
node_open(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t		   len = sizeof(address);

	memset(&node, 0, sizeof(node));
	for (int i = 0; i < MAX_PEERS; i++)
		node.peers[i].fd = -1;
	node.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(node.listener, (struct sockaddr *) &address, sizeof(address)) == 0);
	CHECK(listen(node.listener, 16) == 0);
	CHECK(getsockname(node.listener, (struct sockaddr *) &address, &len) == 0);
	node.port = ntohs(address.sin_port);
}

static void
peer_close(Peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	free(peer->in);
	*peer = (Peer){.fd = -1};
}

static void
node_close(void)
{
	for (int i = 0; i < MAX_PEERS; i++)
		peer_close(&node.peers[i]);
	close(node.listener);
}

static void
peer_say(Peer *peer, const char *text, size_t len)
{
	for (size_t at = 0; at < len;)
	{
		ssize_t n = send(peer->fd, text + at, node.byte_by_byte ? 1 : len - at, MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t) n;
		else if (errno != EAGAIN)
			return;
		if (node.byte_by_byte)
			usleep(200);
	}
}

static void
take_step(Peer *peer, const char *what)
{
	const Step *step = node.steps;

	if (step == NULL || step->expect == NULL)
	{
		if (!node.silent && test_complain(__FILE__, __LINE__))
			printf("the script is over, but there came: %s\n", what);
		return;
	}
	if (strcmp(step->expect, what) != 0)
	{
		if (test_complain(__FILE__, __LINE__))
			printf("expected: %s, but there came: %s\n", step->expect, what);
		return;
	}
	node.steps++;
	if (step->say != NULL)
		peer_say(peer, step->say, strlen(step->say));
	if (step->after == CLOSE)
		peer_close(peer);
	peer->hangs = step->after == HANG;
}

/* A whole command at the front of the buffer: its words; its length, or 0. */
static size_t
peer_command(const Peer *peer, char *words, size_t size)
{
	const char *at = peer->in;
	const char *end = peer->in + peer->in_len;
	size_t		used = 0;
	long		n;

	words[0] = '\0';
	if (peer->in_len < 4 || memchr(at, '\n', end - at) == NULL)
		return 0;
	n = strtol(at + 1, NULL, 10);
	at = (const char *) memchr(at, '\n', end - at) + 1;
	for (long i = 0; i < n; i++)
	{
		const char *line_end = at < end ? memchr(at, '\n', end - at) : NULL;
		long		len;

		if (line_end == NULL)
			return 0;
		len = strtol(at + 1, NULL, 10);
		at = line_end + 1;
		if (end - at < len + 2)
			return 0;
		if (len > 48)
			used += (size_t) snprintf(words + used, size - used, " #");
		else if (len == 40)
			used += (size_t) snprintf(words + used, size - used, " %%");
		else
			used += (size_t) snprintf(words + used, size - used, "%s%.*s", i > 0 ? " " : "", (int) len, at);
		at += len + 2;
	}
	return (size_t) (at - peer->in);
}

static void
peer_read(Peer *peer)
{
	char   words[4096];
	size_t taken;

	while (peer->fd >= 0 && !peer->hangs)
	{
		ssize_t n;

		if (peer->in_size - peer->in_len < 65536)
		{
			peer->in_size = peer->in_size * 2 + 65536;
			peer->in = realloc(peer->in, peer->in_size);
		}
		n = recv(peer->fd, peer->in + peer->in_len, peer->in_size - peer->in_len - 1, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
		{
			peer_close(peer);
			return;
		}
		if (n < 0)
			break;
		peer->in_len += (size_t) n;
		peer->in[peer->in_len] = '\0';
	}
	while (peer->fd >= 0 && !peer->hangs && (taken = peer_command(peer, words, sizeof(words))) > 0)
	{
		node.alone += taken == peer->in_len;
		peer->in_len -= taken;
		memmove(peer->in, peer->in + taken, peer->in_len + 1);
		take_step(peer, words);
	}
}

static void
node_turn(void)
{
	int fd;

	while ((fd = accept4(node.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
	{
		Peer *peer = &node.peers[node.n_peers++ % MAX_PEERS];

		peer_close(peer);
		peer->fd = fd;
		if (node.steps != NULL && node.steps->expect != NULL && strcmp(node.steps->expect, "(connect)") == 0)
			take_step(peer, "(connect)");
	}
	for (int i = 0; i < MAX_PEERS; i++)
		if (node.peers[i].fd >= 0)
			peer_read(&node.peers[i]);
}

static int
node_connections(void)
{
	int n = 0;

	for (int i = 0; i < MAX_PEERS; i++)
		n += node.peers[i].fd >= 0;
	return n;
}

/* the client's side */

typedef struct Seen
{
	int			times;
	ZarisAnswer answer;
	char		text[ZARIS_ERROR_TEXT];
} Seen;

static ZarisLoop	*loop;
static ZarisStore	*store;
static ZarisClient	*memory; /* batches belong to a client; it sends nothing */
static ZarisBatch	*batch;
static int			 n_answers;
static int			 n_maps;
static ZarisStatus	 map_status;
static char			 map_text[256];
static ZarisTopology map;
static bool			 in_detach;

static void
answered(ZarisClient *client, ZarisOperation *operation, const ZarisAnswer *answer)
{
	Seen *seen = operation->user;

	CHECK(!in_detach);
	seen->times++;
	seen->answer = *answer;
	seen->text[0] = '\0';
	if (answer->text != NULL)
	{
		size_t len = answer->text_len < ZARIS_ERROR_TEXT ? answer->text_len : ZARIS_ERROR_TEXT - 1;

		memcpy(seen->text, answer->text, len);
		seen->text[len] = '\0';
	}
	CHECK_INT(1, seen->times);
	n_answers++;
}

static void
map_fetched(ZarisClient *client, ZarisStatus status, const ZarisTopology *topology, const char *text)
{
	n_maps++;
	map_status = status;
	snprintf(map_text, sizeof(map_text), "%s", text != NULL ? text : "");
	CHECK((topology != NULL) == (status == ZARIS_OK));
	if (topology != NULL)
		map = *topology;
}

static const ZarisStoreEvents events = {answered, map_fetched};

static uint64_t
now_us(void *context)
{
	return zaris_loop_now_us();
}

static int64_t
wall_ms(void *context)
{
	return 0;
}

static uint64_t
some_number(void *context)
{
	return 4;
}

static const ZarisHost host = {.now_us = now_us, .wall_ms = wall_ms, .random = some_number};

static void
begin_as(const Step *steps, const char *user, const char *password, int database)
{
	static ZarisUrl	   url;
	ZarisStoreConfig   config = {0};
	ZarisClientOptions options = {0};
	const char		  *problem;

	node_open();
	node.steps = steps;
	loop = zaris_loop_create();
	memset(&url, 0, sizeof(url));
	url.database = database;
	url.n_seeds = 1;
	strcpy(url.seeds[0].host, "127.0.0.1");
	url.seeds[0].port = node.port;
	config.url = &url;
	config.user = user;
	config.password = password;
	config.client_name = "t";
	config.connect_timeout_us = 200000;
	config.host = &host;
	config.loop = loop;
	config.events = &events;
	CHECK_INT(ZARIS_OK, zaris_resp_driver.open(&config, &store, &problem));
	options.url = url;
	memory = zaris_client_open(&zaris_resp_driver, &options, &host, loop, &problem);
	batch = zaris_batch_create(memory);
	n_answers = n_maps = 0;
}

static void
begin(const Step *steps)
{
	begin_as(steps, NULL, NULL, 0);
}

static void
end(void)
{
	if (node.steps != NULL && node.steps->expect != NULL && test_complain(__FILE__, __LINE__))
		printf("there did not come: %s\n", node.steps->expect);
	zaris_resp_driver.close(store);
	zaris_batch_free(batch);
	zaris_client_close(memory);
	zaris_loop_destroy(loop);
	node_close();
}

static ZarisOperation *
operation_of(ZarisBatch *of, ZarisOperationKind kind, ZarisRecordKind record, const char *key)
{
	ZarisOperation *operation = zaris_batch_operation(of);

	operation->kind = kind;
	operation->record = record;
	operation->key = (ZarisBytes){key, strlen(key)};
	operation->want = ZARIS_WANT_VALUE;
	operation->batch = of;
	operation->state = ZARIS_OPERATION_SENT;
	operation->user = zaris_batch_alloc(of, sizeof(Seen));
	memset(operation->user, 0, sizeof(Seen));
	return operation;
}

static void
submit_asking(ZarisOperation *operation, bool asking)
{
	ZarisNode to;

	memset(&to, 0, sizeof(to));
	strcpy(to.address.host, "127.0.0.1");
	to.address.port = node.port;
	zaris_resp_driver.submit(store, 5, &to, operation, asking);
	CHECK_INT(0, ((Seen *) operation->user)->times); /* never out of submit */
}

static void
submit(ZarisOperation *operation)
{
	submit_asking(operation, false);
}

static void
turn(void)
{
	int			  timeout;
	struct pollfd wait = {.events = POLLIN};

	zaris_loop_turn(loop);
	node_turn();
	zaris_loop_turn(loop);
	timeout = zaris_loop_timeout_ms(loop);
	wait.fd = zaris_loop_fd(loop);
	if (timeout != 0)
		poll(&wait, 1, 1);
}

/* Turn until the counter stands at `wanted`, within reason. */
static bool
turn_until(const int *counter, int wanted)
{
	uint64_t end_us = zaris_loop_now_us() + 5000000;

	while (*counter < wanted && zaris_loop_now_us() < end_us)
		turn();
	CHECK_INT(wanted, *counter);
	return *counter == wanted;
}

static bool
run_until(const int *counter, int wanted)
{
	zaris_resp_driver.flush(store);
	return turn_until(counter, wanted);
}

/* Likewise until that step is the next. */
static void
run_to(const Step *step)
{
	uint64_t end_us = zaris_loop_now_us() + 5000000;

	zaris_resp_driver.flush(store);
	while (node.steps != step && zaris_loop_now_us() < end_us)
		turn();
	CHECK(node.steps == step);
}

/* Some turns more, in which nothing is to come. */
static void
idle(void)
{
	for (int i = 0; i < 20; i++)
		turn();
}

static void
check_answer(const ZarisOperation *operation, ZarisStatus status, ZarisOutcome outcome)
{
	const Seen *seen = operation->user;

	CHECK_INT(1, seen->times);
	CHECK_TEXT(zaris_status_name(status), zaris_status_name(seen->answer.status));
	CHECK_INT(outcome, seen->answer.outcome);
}

static ZarisOperation *
get(const char *key)
{
	return operation_of(batch, ZARIS_OP_GET, ZARIS_RECORD_STRING, key);
}

static ZarisOperation *
put_if(ZarisPrecondition precondition, const char *key, const char *value)
{
	ZarisOperation *operation = operation_of(batch, ZARIS_OP_PUT, ZARIS_RECORD_STRING, key);

	operation->value = (ZarisBytes){value, strlen(value)};
	operation->precondition = precondition;
	return operation;
}

static ZarisOperation *
get_hash(const char *key, ZarisField *fields, int n_fields)
{
	ZarisOperation *operation = operation_of(batch, ZARIS_OP_GET, ZARIS_RECORD_HASH, key);

	operation->fields = fields;
	operation->n_fields = n_fields;
	return operation;
}

#define HELLO \
	{ \
		"CLIENT SETNAME t", "+OK\r\n" \
	}
#define END \
	{ \
		NULL \
	}

#endif /* ZARIS_RESP_NODE_H */
