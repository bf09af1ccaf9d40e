/*
 * test_resp_map.c
 *	  The map: asked for in every way that a server understands.
 */
#include "resp_node.h"

static void
fetch(const Step *steps, ZarisStatus status, const char *text)
{
	ZarisAddress from = {"127.0.0.1", 0};

	begin(steps);
	from.port = node.port;
	zaris_resp_driver.fetch_map(store, &from);
	if (run_until(&n_maps, 1))
	{
		CHECK_TEXT(zaris_status_name(status), zaris_status_name(map_status));
		CHECK_TEXT(text, map_text);
		CHECK_INT(0, zaris_resp_driver.connections(store));
	}
	end();
}

#define INFO_OK "$43\r\ncluster_state:ok\r\ncluster_current_epoch:9\r\n\r\n"
#define SHARDS_OK \
	"*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n$5\r\nnodes\r\n*1\r\n*8\r\n$4\r\nport\r\n:7001\r\n$8\r\nendpoint\r\n$0\r\n\r\n" \
	"$4\r\nrole\r\n$6\r\nmaster\r\n$6\r\nhealth\r\n$6\r\nonline\r\n"

TEST(map_from_shards)
{
	static const Step steps[] = {HELLO, {"CLUSTER SHARDS", SHARDS_OK}, {"CLUSTER INFO", INFO_OK}, END};

	fetch(steps, ZARIS_OK, "");
	CHECK_INT(9, map.epoch);
	CHECK_INT(16384, map.n_slots);
	CHECK_TEXT("127.0.0.1", map.nodes[0].address.host);
	CHECK_INT(7001, map.nodes[0].address.port);
}

TEST(map_from_slots)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER SHARDS", "-ERR Unknown subcommand or wrong number of arguments for 'SHARDS'. Try CLUSTER HELP.\r\n"},
		{"CLUSTER INFO", INFO_OK},
		{"CLUSTER SLOTS", "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\nh\r\n:7\r\n"},
		END,
	};

	fetch(steps, ZARIS_OK, "");
	CHECK_INT(9, map.epoch);
	CHECK_TEXT("h", map.nodes[0].address.host);
	CHECK_INT(0, map.owner[5]);
	CHECK_INT(-1, map.owner[6]);
}

TEST(map_of_a_single_node)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER SHARDS", "-ERR This instance has cluster support disabled\r\n"},
		{"CLUSTER INFO", "-ERR This instance has cluster support disabled\r\n"},
		{"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
		{"INFO cluster", "$19\r\ncluster_enabled:0\r\n\r\n"},
		END,
	};
	static const Step nothing[] = {
		HELLO,
		{"CLUSTER SHARDS", "-ERR unknown command 'CLUSTER'\r\n"},
		{"CLUSTER INFO", "-ERR unknown command 'CLUSTER'\r\n"},
		{"ROLE", "-ERR unknown command 'ROLE'\r\n"},
		{"INFO cluster", "-ERR unknown command 'INFO'\r\n"},
		END,
	};

	fetch(steps, ZARIS_OK, "");
	CHECK_INT(1, map.n_slots);
	CHECK_INT(0, map.owner[0]);
	CHECK_INT(ZARIS_ROLE_PRIMARY, map.nodes[0].role);
	fetch(nothing, ZARIS_OK, "");
	CHECK_INT(1, map.n_slots);
}

/* A cluster's node that hides its CLUSTER command must not pass for a single one: a scan would see a part only. */
TEST(map_of_a_disguised_cluster)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER SHARDS", "-ERR unknown command 'CLUSTER'\r\n"},
		{"CLUSTER INFO", "-ERR unknown command 'CLUSTER'\r\n"},
		{"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
		{"INFO cluster", "$19\r\ncluster_enabled:1\r\n\r\n"},
		END,
	};

	fetch(steps, ZARIS_INVALID_REQUEST, "the node belongs to a cluster, but its CLUSTER command is not to be had under this name");
}

TEST(map_failures)
{
	static const Step denied[] = {
		HELLO,
		{"CLUSTER SHARDS", "-NOPERM no\r\n"},
		{"CLUSTER INFO", "-NOPERM no\r\n"},
		END,
	};
	static const Step no_info[] = {
		HELLO,
		{"CLUSTER SHARDS", SHARDS_OK},
		{"CLUSTER INFO", "-NOPERM no\r\n"},
		END,
	};
	static const Step loading[] = {
		HELLO,
		{"CLUSTER SHARDS", "-LOADING x\r\n"},
		{"CLUSTER INFO", "-LOADING x\r\n"},
		END,
	};
	static const Step empty[] = {HELLO, {"CLUSTER SHARDS", "*0\r\n"}, {"CLUSTER INFO", INFO_OK}, END};
	static const Step hostile[] = {HELLO, {"CLUSTER SHARDS", "*4294967295\r\n"}, {"CLUSTER INFO"}, END};
	static const Step shape[] = {HELLO, {"CLUSTER SHARDS", "+OK\r\n"}, {"CLUSTER INFO", INFO_OK}, END};
	static const Step silent[] = {HELLO, {"CLUSTER SHARDS", SHARDS_OK}, {"CLUSTER INFO", NULL}, END};
	static const Step closed[] = {HELLO, {"CLUSTER SHARDS", SHARDS_OK, CLOSE}, END};
	static const Step login[] = {{"CLIENT SETNAME t", "-NOAUTH Authentication required.\r\n"}, END};

	fetch(denied, ZARIS_PERMISSION_DENIED, "the user may not ask for the cluster map; grant +cluster|shards and +cluster|info");
	fetch(no_info, ZARIS_PERMISSION_DENIED, "the user may not ask for the cluster's epoch; grant +cluster|info");
	fetch(loading, ZARIS_UNAVAILABLE, "LOADING x");
	fetch(empty, ZARIS_UNAVAILABLE, "the node knows no slot that can be reached; it may have been taken out of its cluster");
	fetch(hostile, ZARIS_PROTOCOL_ERROR, "the number of elements is not a number within its bounds");
	fetch(shape, ZARIS_PROTOCOL_ERROR, "the cluster's description of itself is malformed or out of bounds");
	fetch(silent, ZARIS_TRANSPORT_ERROR, "no reply within connect_timeout");
	fetch(closed, ZARIS_TRANSPORT_ERROR, "connection was closed by the server");
	fetch(login, ZARIS_UNAUTHENTICATED, "NOAUTH Authentication required.");
}

TEST(map_from_nowhere)
{
	ZarisAddress from = {"no such host.invalid", 1};

	begin(NULL);
	zaris_resp_driver.fetch_map(store, &from);
	CHECK_INT(0, n_maps);
	run_until(&n_maps, 1);
	CHECK_INT(ZARIS_CONNECT_ERROR, map_status);
	end();
}

TEST(maps_one_after_the_other)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER SHARDS", "-LOADING x\r\n"},
		{"CLUSTER INFO", "-LOADING x\r\n"},
		HELLO,
		{"CLUSTER SHARDS", SHARDS_OK},
		{"CLUSTER INFO", INFO_OK},
		END,
	};
	ZarisAddress from = {"127.0.0.1", 0};

	begin(steps);
	from.port = node.port;
	zaris_resp_driver.fetch_map(store, &from);
	run_until(&n_maps, 1);
	zaris_resp_driver.fetch_map(store, &from);
	run_until(&n_maps, 2);
	CHECK_INT(ZARIS_OK, map_status);
	CHECK_INT(2, node.n_peers);
	end();
}

int
main(void)
{
	RUN(map_from_shards);
	RUN(map_from_slots);
	RUN(map_of_a_single_node);
	RUN(map_of_a_disguised_cluster);
	RUN(map_failures);
	RUN(map_from_nowhere);
	RUN(maps_one_after_the_other);
	return test_end();
}
