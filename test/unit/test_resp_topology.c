/*
 * test_resp_topology.c
 *	  What servers say of their cluster: SHARDS, SLOTS, ROLE, INFO and NODES, in RESP2's and RESP3's shapes, and hostile.
 *
 * Replies are written in a short form:	[a b] array, {k v} map, 7 integer, 'text' bulk, - nil.
 */
#include "stores/resp/topology.h"

#include <stdlib.h>

#include "stores/resp/nodes.h"
#include "test.h"

static ZarisTopology topology;
static ZarisReader	 reader;
static char			 bytes[65536];
static size_t		 len;

/* The number of elements up to the closing bracket of the aggregate that *text stands in. */
static size_t
count_elements(const char *text)
{
	size_t n = 0;
	int	   depth = 0;

	for (; depth >= 0; text++)
	{
		if (*text == ' ')
			continue;
		if (*text == ']' || *text == '}')
		{
			depth--;
			continue;
		}
		n += depth == 0;
		if (*text == '[' || *text == '{')
			depth++;
		else if (*text == '\'')
			text = strchr(text + 1, '\'');
		else
			while (text[1] != ' ' && text[1] != ']' && text[1] != '}' && text[1] != '\0')
				text++;
	}
	return n;
}

static void
encode(const char *text)
{
	len = 0;
	while (*text != '\0')
	{
		const char *end;

		if (*text == '[' || *text == '{')
		{
			size_t n = count_elements(text + 1);

			len += (size_t) sprintf(bytes + len, "%c%zu\r\n", *text == '[' ? '*' : '%', *text == '[' ? n : n / 2);
		}
		else if (*text == '\'')
		{
			end = strchr(text + 1, '\'');
			len += (size_t) sprintf(bytes + len, "$%d\r\n%.*s\r\n", (int) (end - text - 1), (int) (end - text - 1), text + 1);
			text = end;
		}
		else if (*text == '-' && (text[1] < '0' || text[1] > '9'))
			len += (size_t) sprintf(bytes + len, "$-1\r\n");
		else if (*text != ' ' && *text != ']' && *text != '}')
		{
			len += (size_t) sprintf(bytes + len, ":%ld\r\n", strtol(text, (char **) &end, 10));
			text = end - 1;
		}
		text++;
	}
}

static ZarisReply
reply_of(const char *text)
{
	ZarisReply reply = {0};

	encode(text);
	zaris_reader_reset(&reader);
	zaris_reader_feed(&reader, bytes, len);
	CHECK_INT(ZARIS_READER_REPLY, zaris_reader_next(&reader, &reply));
	return reply;
}

typedef ZarisStatus (*Read)(const ZarisReply *reply, const ZarisAddress *origin, ZarisTopology *topology,
							const char **problem);

static ZarisStatus
read_from(Read read, const char *host, int port, const char *text)
{
	ZarisAddress origin = {{0}, port};
	const char	*problem = NULL;
	ZarisReply	 reply = reply_of(text);
	ZarisStatus	 status;

	strcpy(origin.host, host);
	status = read(&reply, &origin, &topology, &problem);
	CHECK((status == ZARIS_OK) == (problem == NULL));
	return status;
}

static ZarisStatus
shards(const char *text)
{
	return read_from(zaris_resp_read_shards, "10.0.0.9", 7009, text);
}

static ZarisStatus
slots(const char *text)
{
	return read_from(zaris_resp_read_slots, "10.0.0.9", 7009, text);
}

static const ZarisNode *
owner(int slot)
{
	static const ZarisNode none;

	return topology.owner[slot] >= 0 ? &topology.nodes[topology.owner[slot]] : &none;
}

#define NODE(id, ip, port, role, health) \
	"['id' '" id "' 'port' " port " 'ip' '" ip "' 'endpoint' '" ip "' 'role' '" role "' 'replication-offset' 5 'health' '" health "']"

/* SHARDS */

TEST(shards_in_both_shapes)
{
	static const char *const texts[] = {
		"[['slots' [0 5460 10923 16383] 'nodes' [" NODE("b", "10.0.0.2", "7002", "replica", "online") NODE("a", "10.0.0.1", "7001", "master", "online") "]]"
																																						" ['slots' [5461 10922] 'nodes' [" NODE("c", "10.0.0.3", "7003", "master", "online") "]]]",
		"[{'slots' [0 5460 10923 16383] 'nodes' [{'id' 'b' 'port' 7002 'ip' '10.0.0.2' 'endpoint' '10.0.0.2' 'role' 'replica' 'health' 'online'}"
		" {'health' 'online' 'role' 'master' 'port' 7001 'endpoint' '10.0.0.1' 'ip' '10.0.0.1' 'availability-zone' ''}] 'id' 'shard'}"
		" {'id' 'x' 'nodes' [{'port' 7003 'endpoint' '10.0.0.3' 'role' 'master' 'health' 'online'}] 'slots' [5461 10922]}]"};

	for (int i = 0; i < 2; i++)
	{
		CHECK_INT(ZARIS_OK, shards(texts[i]));
		CHECK_INT(16384, topology.n_slots);
		CHECK_INT(3, topology.n_nodes);
		CHECK_TEXT("10.0.0.1", owner(0)->address.host);
		CHECK_INT(7001, owner(16383)->address.port);
		CHECK_INT(7003, owner(5461)->address.port);
		CHECK_INT(7003, owner(10922)->address.port);
		CHECK_INT(ZARIS_ROLE_PRIMARY, owner(0)->role);
		CHECK_INT(ZARIS_HEALTH_ONLINE, owner(0)->health);
		CHECK_INT(ZARIS_ROLE_REPLICA, topology.nodes[1].role);
		CHECK_INT(7002, topology.nodes[1].address.port);
		CHECK_INT(topology.owner[0], topology.nodes[1].primary);
		CHECK_INT(-1, owner(0)->primary);
		CHECK_TEXT("", owner(0)->ip);
	}
}

/* The old primary still calls itself so. */
TEST(two_primaries)
{
	CHECK_INT(ZARIS_OK, shards("[['slots' [0 16383] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "fail")
								   NODE("b", "10.0.0.2", "7002", "master", "online") "]]]"));
	CHECK_INT(7002, owner(7)->address.port);
	CHECK_INT(ZARIS_HEALTH_FAIL, topology.nodes[1].health);
	CHECK_INT(ZARIS_ROLE_REPLICA, topology.nodes[1].role);
}

/* A shard whose primary is down keeps its slots: they are to fail, not to be unowned. */
TEST(a_shard_that_is_down)
{
	CHECK_INT(ZARIS_OK, shards("[['slots' [0 16383] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "fail")
								   NODE("b", "10.0.0.2", "7002", "replica", "online") "]]]"));
	CHECK_INT(7001, owner(7)->address.port);
	CHECK_INT(ZARIS_HEALTH_FAIL, owner(7)->health);
	CHECK_INT(ZARIS_OK, shards("[['slots' [0 16383] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "fail")
								   NODE("b", "10.0.0.2", "7002", "master", "loading") "]]]"));
	CHECK_INT(7002, owner(7)->address.port);
	CHECK_INT(ZARIS_HEALTH_LOADING, owner(7)->health);
}

TEST(shards_without_slots_or_without_primary)
{
	CHECK_INT(ZARIS_OK, shards("[['slots' [] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]"
																										  " ['slots' [0 100] 'nodes' [" NODE("b", "10.0.0.2", "7002", "replica", "online") "]]"
																																														   " ['slots' [101 200] 'nodes' [" NODE("c", "10.0.0.3", "7003", "master", "online") "]]]"));
	CHECK_INT(3, topology.n_nodes);
	CHECK_INT(-1, topology.owner[50]);
	CHECK_INT(7003, owner(150)->address.port);
	CHECK_INT(-1, topology.owner[201]);
}

TEST(endpoints)
{
	CHECK_INT(ZARIS_OK, shards("[['slots' [0 0] 'nodes' [['port' 7001 'ip' '10.0.0.1' 'endpoint' - 'role' 'master' 'health' 'online']]]"
							   " ['slots' [1 1] 'nodes' [['port' 7002 'ip' '' 'endpoint' '' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [2 2] 'nodes' [['port' 7003 'ip' '10.0.0.3' 'endpoint' '?' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [3 3] 'nodes' [['port' 7004 'ip' '' 'endpoint' '?' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [4 4] 'nodes' [['port' 7005 'ip' '10.0.0.5' 'endpoint' 'five.example' 'hostname' 'five.example' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [5 5] 'nodes' [['port' 7006 'ip' '::1' 'endpoint' '::1' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [6 6] 'nodes' [['tls-port' 7007 'ip' '10.0.0.7' 'endpoint' '10.0.0.7' 'role' 'master' 'health' 'online']]]"
							   " ['slots' [7 7] 'nodes' [['port' 7008 'tls-port' 8008 'ip' '10.0.0.8' 'endpoint' '10.0.0.8' 'role' 'master' 'health' 'online']]]]"));
	CHECK_TEXT("10.0.0.9", owner(0)->address.host);
	CHECK_INT(7001, owner(0)->address.port);
	CHECK_TEXT("", owner(0)->ip);
	CHECK_TEXT("10.0.0.9", owner(1)->address.host);
	CHECK_TEXT("10.0.0.3", owner(2)->address.host);
	CHECK_INT(-1, topology.owner[3]);
	CHECK_TEXT("five.example", owner(4)->address.host);
	CHECK_TEXT("10.0.0.5", owner(4)->ip);
	CHECK_TEXT("::1", owner(5)->address.host);
	CHECK_INT(-1, topology.owner[6]);
	CHECK_INT(7008, owner(7)->address.port);
}

TEST(endpoints_through_a_socket)
{
	CHECK_INT(ZARIS_OK, read_from(zaris_resp_read_shards, "/run/redis.sock", 0,
								  "[['slots' [0 0] 'nodes' [['port' 7001 'ip' '' 'endpoint' '' 'role' 'master' 'health' 'online']]]]"));
	CHECK_TEXT("127.0.0.1", owner(0)->address.host);
	CHECK_INT(7001, owner(0)->address.port);
}

TEST(malformed_shards)
{
	static const char *const texts[] = {
		"7",
		"'x'",
		"-",
		"[7]",
		"[[]]",
		"['slots' 'nodes']",
		"[['slots' [0 1] 'nodes' 7]]",
		"[['slots' [0 1]]]",
		"[['slots' 7 'nodes' []]]",
		"[['slots' [0 1] 'nodes' [7]]]",
		"[['slots' [0 1] 'nodes' [['port']]]]",
		"[['slots' [0] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [0 16384] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [-1 5] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [7 5] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [0 5 5 6] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [0 4294967296] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' ['0' '5'] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]",
		"[['slots' [0 5] 'nodes' [" NODE("a", "10.0.0.1", "65536", "master", "online") "]]]",
		"[['slots' [0 5] 'nodes' [" NODE("a", "10.0.0.1", "-1", "master", "online") "]]]",
		"[['slots' [0 5] 'nodes' [" NODE("a", "10.0.0.1", "'7001'", "master", "online") "]]]",
		"[['slots' [0 5] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]"
																					  " ['slots' [5 6] 'nodes' [" NODE("b", "10.0.0.2", "7001", "master", "online") "]]]",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		ZarisStatus status = shards(texts[i]);

		CHECK_INT(ZARIS_PROTOCOL_ERROR, status);
		if (status != ZARIS_PROTOCOL_ERROR)
			printf("# %s\n", texts[i]);
	}
}

TEST(an_empty_map)
{
	CHECK_INT(ZARIS_UNAVAILABLE, shards("[]"));
	CHECK_INT(ZARIS_UNAVAILABLE, shards("[['slots' [] 'nodes' [" NODE("a", "10.0.0.1", "7001", "master", "online") "]]]"));
	CHECK_INT(ZARIS_UNAVAILABLE, slots("[]"));
}

/* More nodes than there is room for. */
TEST(too_many_nodes)
{
	ZarisAddress origin = {"h", 1};
	const char	*problem;
	ZarisReply	 reply;

	len = (size_t) sprintf(bytes, "*1\r\n*%d\r\n:0\r\n:0\r\n", ZARIS_MAX_NODES + 3);
	for (int i = 0; i <= ZARIS_MAX_NODES; i++)
		len += (size_t) sprintf(bytes + len, "*3\r\n$2\r\nhh\r\n:%d\r\n$1\r\na\r\n", i + 1);
	zaris_reader_reset(&reader);
	zaris_reader_feed(&reader, bytes, len);
	CHECK_INT(ZARIS_READER_REPLY, zaris_reader_next(&reader, &reply));
	CHECK_INT(ZARIS_PROTOCOL_ERROR, zaris_resp_read_slots(&reply, &origin, &topology, &problem));
}

/* SLOTS */

TEST(slots_of_all_ages)
{
	CHECK_INT(ZARIS_OK, slots("[[0 100 ['10.0.0.1' 7001] ['10.0.0.2' 7002]]"
							  " [101 200 ['10.0.0.3' 7003 'id']]"
							  " [201 300 ['four.example' 7004 'id' ['ip' '10.0.0.4']]]"
							  " [301 400 ['five.example' 7005 'id' {'ip' '10.0.0.5' 'availability-zone' 'x'}]]"
							  " [401 500 [- 7006 'id' ['ip' '10.0.0.6']]]"
							  " [501 600 ['' 7007 'id' []]]"
							  " [601 700 ['?' 7008 'id' ['ip' '10.0.0.8']]]"
							  " [701 800 ['?' 7009 'id' []]]"
							  " [801 900 ['10.0.0.1' 7001]]]"));
	CHECK_INT(7001, owner(100)->address.port);
	CHECK_INT(ZARIS_ROLE_REPLICA, topology.nodes[1].role);
	CHECK_INT(0, topology.nodes[1].primary);
	CHECK_INT(ZARIS_HEALTH_UNKNOWN, owner(0)->health);
	CHECK_INT(7003, owner(101)->address.port);
	CHECK_TEXT("four.example", owner(250)->address.host);
	CHECK_TEXT("10.0.0.4", owner(250)->ip);
	CHECK_TEXT("10.0.0.5", owner(400)->ip);
	CHECK_TEXT("10.0.0.9", owner(401)->address.host);
	CHECK_TEXT("10.0.0.9", owner(501)->address.host);
	CHECK_TEXT("10.0.0.8", owner(601)->address.host);
	CHECK_INT(-1, topology.owner[701]);
	CHECK_INT(topology.owner[0], topology.owner[900]);
	CHECK_INT(-1, topology.owner[901]);
	CHECK_INT(0, topology.epoch);
}

TEST(malformed_slots)
{
	static const char *const texts[] = {
		"7",
		"-",
		"[7]",
		"[[]]",
		"[[0 1]]",
		"[[0 1 7]]",
		"[[0 1 []]]",
		"[[0 1 ['h']]]",
		"[[0 1 ['h' 'p']]]",
		"[[0 1 [7 7]]]",
		"[[0 1 ['h' 70000]]]",
		"[[0 16384 ['h' 1]]]",
		"[[-1 1 ['h' 1]]]",
		"[[2 1 ['h' 1]]]",
		"[['0' '1' ['h' 1]]]",
		"[[0 2 ['h' 1]] [2 3 ['g' 1]]]",
		"[[0 1 ['h' 1] 7]]",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		ZarisStatus status = slots(texts[i]);

		CHECK_INT(ZARIS_PROTOCOL_ERROR, status);
		if (status != ZARIS_PROTOCOL_ERROR)
			printf("# %s\n", texts[i]);
	}
}

/* ROLE */

TEST(roles)
{
	CHECK_INT(ZARIS_OK, read_from(zaris_resp_read_role, "/run/redis.sock", 0, "['master' 100 [['10.0.0.2' '7002' '90'] ['10.0.0.3' '7003' '0']]]"));
	CHECK_INT(1, topology.n_slots);
	CHECK_INT(3, topology.n_nodes);
	CHECK_TEXT("/run/redis.sock", owner(0)->address.host);
	CHECK_INT(0, owner(0)->address.port);
	CHECK_INT(ZARIS_ROLE_PRIMARY, owner(0)->role);
	CHECK_INT(ZARIS_ROLE_REPLICA, topology.nodes[2].role);
	CHECK_INT(7003, topology.nodes[2].address.port);
	CHECK_INT(0, topology.nodes[2].primary);

	CHECK_INT(ZARIS_OK, read_from(zaris_resp_read_role, "10.0.0.9", 7009, "['slave' '10.0.0.1' 7001 'connected' 100]"));
	CHECK_TEXT("10.0.0.1", owner(0)->address.host);
	CHECK_INT(ZARIS_HEALTH_ONLINE, owner(0)->health);
	CHECK_INT(2, topology.n_nodes);
	CHECK_TEXT("10.0.0.9", topology.nodes[1].address.host);
	CHECK_INT(ZARIS_ROLE_REPLICA, topology.nodes[1].role);

	CHECK_INT(ZARIS_OK, read_from(zaris_resp_read_role, "10.0.0.9", 7009, "['slave' '10.0.0.1' 7001 'connect' -1]"));
	CHECK_INT(ZARIS_HEALTH_UNKNOWN, owner(0)->health);

	CHECK_INT(ZARIS_INVALID_REQUEST, read_from(zaris_resp_read_role, "10.0.0.9", 7009, "['sentinel' ['mymaster']]"));
}

TEST(malformed_roles)
{
	static const char *const texts[] = {
		"7", "[]", "['master']", "['master' 1]", "['master' 1 7]", "['master' 1 [7]]", "['master' 1 [['h']]]",
		"['master' 1 [['h' '99999' '1']]]", "['slave' 'h' 0 'connected' 1]", "['slave' '' 1 'connected' 1]",
		"['slave' 'h' 70000 'connected' 1]", "['slave' 'h' 1]", "['slave' 7 7 7 7]", "['pope' 1 2]", "[7 7 7]",
		"['slave' '10.0.0.9' 7009 'connected' 1]", /* of itself */
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		ZarisStatus status = read_from(zaris_resp_read_role, "10.0.0.9", 7009, texts[i]);

		CHECK_INT(ZARIS_PROTOCOL_ERROR, status);
		if (status != ZARIS_PROTOCOL_ERROR)
			printf("# %s\n", texts[i]);
	}
}

/* INFO */

static bool
info(const char *text, const char *name, uint64_t *number)
{
	ZarisReply reply = {.type = ZARIS_REPLY_BULK, .data = text, .len = strlen(text)};

	return zaris_resp_info_number(&reply, name, number);
}

TEST(info_numbers)
{
	uint64_t   number = 0;
	ZarisReply integer = {.type = ZARIS_REPLY_INTEGER};

	CHECK(info("cluster_state:ok\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n", "cluster_current_epoch", &number));
	CHECK_INT(6, number);
	CHECK(info("cluster_current_epoch:18446744073709551615", "cluster_current_epoch", &number));
	CHECK(number == UINT64_MAX);
	CHECK(info("# Cluster\r\ncluster_enabled:1\r\n", "cluster_enabled", &number));
	CHECK(!info("", "cluster_enabled", &number));
	CHECK(!info("cluster_enabled", "cluster_enabled", &number));
	CHECK(!info("cluster_enabled:", "cluster_enabled", &number));
	CHECK(!info("cluster_enabled:x", "cluster_enabled", &number));
	CHECK(!info("cluster_enabled:99999999999999999999", "cluster_enabled", &number));
	CHECK(!info("xcluster_enabled:1", "cluster_enabled", &number));
	CHECK(!zaris_resp_info_number(&integer, "cluster_enabled", &number));
}

/* NODES */

/* Everything is freed at the end of a test. */
static void *pieces[64];
static int	 n_pieces;

static void *
allocate(void *context, size_t size)
{
	return pieces[n_pieces++] = malloc(size > 0 ? size : 1);
}

static void
free_pieces(void)
{
	while (n_pieces > 0)
		free(pieces[--n_pieces]);
}

static ZarisStatus
nodes(const char *text, ZarisNodeState **state)
{
	ZarisAddress origin = {"10.0.0.9", 7009};
	size_t		 size = strlen(text);
	char		*copy = malloc(size + 1);
	ZarisStatus	 status;

	memcpy(copy, text, size); /* without its NUL, so that reading on is seen */
	copy = realloc(copy, size > 0 ? size : 1);
	free_pieces();
	status = zaris_nodes_parse(copy, size, &origin, allocate, NULL, state);
	free(copy);
	return status;
}

static bool
owns(const ZarisNodeState *state, int slot)
{
	return state->owned[slot / 8] >> slot % 8 & 1;
}

TEST(nodes_of_a_cluster)
{
	ZarisNodeState *state;

	CHECK_INT(ZARIS_OK, nodes("aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-5460 7000 16383 [5460->-bb] [93-<-cc]\n"
							  "bb 10.0.0.2:7002@17002,two.example,,tls-port=0,shard-id=x master - 0 1700000000000 2 connected 5461-6999\n"
							  "cc ::1:7003@17003 slave,fail? aa 0 0 3 disconnected\n"
							  "dd :0@0 master,noaddr - 1 1 0 disconnected\n",
							  &state));
	CHECK_INT(3, state->epoch);
	CHECK(state->primary);
	CHECK_TEXT("aa", state->node_id);
	CHECK(owns(state, 0) && owns(state, 5460) && !owns(state, 5461) && owns(state, 7000) && owns(state, 16383));
	CHECK(!owns(state, 6999) && !owns(state, 93 + 5461));
	CHECK_INT(2, state->n_open);
	CHECK_INT(5460, state->open[0].slot);
	CHECK(!state->open[0].importing);
	CHECK_TEXT("bb", state->open[0].peer_id);
	CHECK_INT(93, state->open[1].slot);
	CHECK(state->open[1].importing);
	CHECK_TEXT("cc", state->open[1].peer_id);
	CHECK_INT(3, state->n_peers);
	CHECK_TEXT("10.0.0.2", state->peers[1].address.host);
	CHECK_INT(7002, state->peers[1].address.port);
	CHECK_TEXT("::1", state->peers[2].address.host);
}

TEST(nodes_as_a_replica_sees_them)
{
	ZarisNodeState *state;

	CHECK_INT(ZARIS_OK, nodes("aa 10.0.0.1:7001@17001 master - 0 0 3 connected 0-16383\n"
							  "bb :7002@17002 myself,slave aa 0 0 3 connected",
							  &state));
	CHECK(!state->primary);
	CHECK(!owns(state, 0));
	CHECK_INT(2, state->n_peers);
	CHECK_TEXT("10.0.0.9", state->peers[1].address.host); /* it does not know its own */
	CHECK_INT(7002, state->peers[1].address.port);
}

TEST(malformed_nodes)
{
	static const char *const texts[] = {
		"",
		"\n",
		"x",
		"aa 10.0.0.1:7001@17001 master - 0 0 3 connected 0-5\n", /* nobody is myself */
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3\n",
		"aa  myself,master - 0 0 3 connected\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 x connected\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 -1 connected\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 16384\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 5-4\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-99999\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected -5\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected x\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [5]\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [5->-]\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [5->-bb\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [16384->-bb]\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [5-->bb]\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected [\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected []\n",
		"aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected\nbb 10.0.0.1:7002@17002 myself,master - 0 0 3 connected\n",
		"0123456789012345678901234567890123456789012345678 10.0.0.1:7001@17001 myself,master - 0 0 3 connected\n",
	};
	ZarisNodeState *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		ZarisStatus status = nodes(texts[i], &state);

		CHECK_INT(ZARIS_PROTOCOL_ERROR, status);
		if (status != ZARIS_PROTOCOL_ERROR)
			printf("# %s\n", texts[i]);
	}
}

/* Cut anywhere, and with any byte another one: nothing may crash. */
TEST(nodes_mutated)
{
	static const char text[] = "aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-5460 7000 [5460->-bb] [93-<-cc]\n"
							   "bb 10.0.0.2:7002@17002,two.example master - 0 1 2 connected 5461-6999\n";
	static const char telling[] = " \n\r:@,-[]<>0\xff\x01";
	ZarisNodeState	 *state;
	char			  copy[sizeof(text)];

	for (size_t i = 0; i < sizeof(text) - 1; i++)
	{
		memcpy(copy, text, sizeof(text));
		copy[i] = '\0';
		nodes(copy, &state);
		for (size_t j = 0; j < sizeof(telling) - 1; j++)
		{
			memcpy(copy, text, sizeof(text));
			copy[i] = telling[j];
			nodes(copy, &state);
		}
	}
	CHECK_INT(ZARIS_OK, nodes(text, &state));
	free_pieces();
}

int
main(void)
{
	zaris_reader_init(&reader);
	RUN(shards_in_both_shapes);
	RUN(two_primaries);
	RUN(a_shard_that_is_down);
	RUN(shards_without_slots_or_without_primary);
	RUN(endpoints);
	RUN(endpoints_through_a_socket);
	RUN(malformed_shards);
	RUN(an_empty_map);
	RUN(too_many_nodes);
	RUN(slots_of_all_ages);
	RUN(malformed_slots);
	RUN(roles);
	RUN(malformed_roles);
	RUN(info_numbers);
	RUN(nodes_of_a_cluster);
	RUN(nodes_as_a_replica_sees_them);
	RUN(malformed_nodes);
	RUN(nodes_mutated);
	zaris_reader_reset(&reader);
	return test_end();
}
