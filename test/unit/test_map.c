/*
 * test_map.c
 *	  The map: every bound, what is taken and what is refused, ids that stay.
 */
#include "client/map.h"

#include <stdlib.h>

#include "test.h"

/* They are large, so they are not on the stack. */
static ZarisTopology topology;
static ZarisTopology other;
static ZarisMap		 map;
static ZarisMap		 copy;

static int
add(ZarisTopology *to, const char *host, int port)
{
	return zaris_topology_add_node(to, host, strlen(host), port);
}

static ZarisAddress
address(const char *host, int port)
{
	ZarisAddress made = {{0}, 0};

	CHECK(zaris_address_set(&made, host, strlen(host), port));
	return made;
}

/* Three nodes, a third of the slots each. */
static void
fill(ZarisTopology *to, uint64_t epoch)
{
	zaris_topology_reset(to, ZARIS_MAX_SLOTS);
	to->epoch = epoch;
	add(to, "a", 1);
	add(to, "b", 2);
	add(to, "c", 3);
	CHECK(zaris_topology_assign(to, 0, 5460, 0));
	CHECK(zaris_topology_assign(to, 5461, 10922, 1));
	CHECK(zaris_topology_assign(to, 10923, 16383, 2));
}

static void
check_refused(const ZarisTopology *what)
{
	copy = map;
	CHECK(!zaris_map_install(&map, what));
	CHECK(memcmp(&copy, &map, sizeof(map)) == 0);
}

TEST(addresses_are_bounded)
{
	ZarisAddress set;
	char		 host[400];

	memset(host, 'x', sizeof(host));
	CHECK(zaris_address_set(&set, "h", 1, 1));
	CHECK(zaris_address_set(&set, "h", 1, 65535));
	CHECK_TEXT("h", set.host);
	CHECK_INT(65535, set.port);
	CHECK(zaris_address_set(&set, host, ZARIS_HOST_LEN - 1, 1));
	CHECK_INT(ZARIS_HOST_LEN - 1, strlen(set.host));

	CHECK(!zaris_address_set(&set, host, ZARIS_HOST_LEN, 1));
	CHECK(!zaris_address_set(&set, host, SIZE_MAX, 1));
	CHECK(!zaris_address_set(&set, "", 0, 1));
	CHECK(!zaris_address_set(&set, NULL, 0, 1));
	CHECK(!zaris_address_set(&set, "?", 1, 1));
	CHECK(zaris_address_set(&set, "?x", 2, 1));
	CHECK(!zaris_address_set(&set, "a\0b", 3, 1));
	CHECK(!zaris_address_set(&set, "h", 1, 0));
	CHECK(!zaris_address_set(&set, "h", 1, -1));
	CHECK(!zaris_address_set(&set, "h", 1, 65536));
	CHECK(!zaris_address_set(&set, "h", 1, INT64_MAX));
	CHECK(!zaris_address_set(&set, "h", 1, INT64_MIN));
	CHECK(!zaris_address_set(&set, "h", 1, INT64_C(4294967297))); /* 1 as an int */
}

TEST(addresses_as_text)
{
	char		 text[ZARIS_ADDRESS_TEXT];
	char		 host[ZARIS_HOST_LEN];
	ZarisAddress long_host;
	ZarisAddress path = {"/tmp/s", 0};

	ZarisAddress v4 = address("127.0.0.1", 7000);
	ZarisAddress v6 = address("::1", 7000);

	CHECK_TEXT("127.0.0.1:7000", zaris_address_text(&v4, text));
	CHECK_TEXT("[::1]:7000", zaris_address_text(&v6, text));
	CHECK_TEXT("/tmp/s", zaris_address_text(&path, text));
	memset(host, ':', sizeof(host));
	CHECK(zaris_address_set(&long_host, host, ZARIS_HOST_LEN - 1, 65535));
	zaris_address_text(&long_host, text);
	CHECK_INT(ZARIS_HOST_LEN - 1 + 8, strlen(text));

	CHECK(!zaris_address_equal(&v4, &v6));
	CHECK(zaris_address_equal(&v4, &v4));
	v6 = address("127.0.0.1", 7001);
	CHECK(!zaris_address_equal(&v4, &v6));
}

TEST(nodes_of_a_topology)
{
	char host[16];

	zaris_topology_reset(&topology, ZARIS_MAX_SLOTS);
	CHECK_INT(0, add(&topology, "a", 1));
	CHECK_INT(1, add(&topology, "a", 2));
	CHECK_INT(0, add(&topology, "a", 1)); /* found, not doubled */
	CHECK_INT(2, topology.n_nodes);
	CHECK_INT(-1, add(&topology, "", 1));
	CHECK_INT(-1, add(&topology, "?", 1));
	CHECK_INT(-1, add(&topology, "a", -1));
	CHECK_INT(-1, add(&topology, "a", 65536));
	CHECK_INT(-1, zaris_topology_add_node(&topology, "a\0b", 3, 1));
	CHECK_INT(2, add(&topology, "/tmp/socket", 0));
	CHECK_INT(-1, add(&topology, "", 0));
	CHECK_INT(-1, zaris_topology_add_node(&topology, "/a\0b", 4, 0));
	CHECK_INT(3, topology.n_nodes);
	CHECK_INT(ZARIS_ROLE_UNKNOWN, topology.nodes[1].role);
	CHECK_INT(-1, topology.nodes[1].primary);

	for (int i = 3; i < ZARIS_MAX_NODES; i++)
	{
		snprintf(host, sizeof(host), "n%d", i);
		CHECK_INT(i, add(&topology, host, 1));
	}
	CHECK_INT(-1, add(&topology, "one-more", 1));
	CHECK_INT(5, add(&topology, "n5", 1));
	CHECK_INT(ZARIS_MAX_NODES, topology.n_nodes);
}

TEST(slots_of_a_topology)
{
	zaris_topology_reset(&topology, ZARIS_MAX_SLOTS);
	CHECK(zaris_topology_is_empty(&topology));
	CHECK(!zaris_topology_assign(&topology, 0, 0, 0)); /* there is no node yet */
	add(&topology, "a", 1);
	add(&topology, "b", 2);
	CHECK(!zaris_topology_assign(&topology, -1, 0, 0));
	CHECK(!zaris_topology_assign(&topology, 0, 16384, 0));
	CHECK(!zaris_topology_assign(&topology, 99999, 99999, 0));
	CHECK(!zaris_topology_assign(&topology, INT64_C(2147483648), INT64_C(2147483648), 0));
	CHECK(!zaris_topology_assign(&topology, INT64_C(4294967296), INT64_C(4294967296), 0)); /* 0 as an int */
	CHECK(!zaris_topology_assign(&topology, INT64_MIN, INT64_MAX, 0));
	CHECK(!zaris_topology_assign(&topology, 5, 4, 0));
	CHECK(!zaris_topology_assign(&topology, 0, 1, 2));
	CHECK(!zaris_topology_assign(&topology, 0, 1, -1));
	CHECK(zaris_topology_is_empty(&topology));

	CHECK(zaris_topology_assign(&topology, 16383, 16383, 1));
	CHECK(!zaris_topology_is_empty(&topology));
	CHECK(zaris_topology_assign(&topology, 100, 200, 0));

	/* An overlap is refused whole. */
	CHECK(!zaris_topology_assign(&topology, 150, 250, 1));
	CHECK(!zaris_topology_assign(&topology, 50, 100, 1));
	CHECK(!zaris_topology_assign(&topology, 120, 130, 0));
	CHECK_INT(-1, topology.owner[99]);
	CHECK_INT(-1, topology.owner[201]);
	CHECK_INT(0, topology.owner[200]);
	CHECK(zaris_topology_assign(&topology, 201, 201, 1));
	CHECK_INT(1, topology.owner[201]);
}

TEST(a_store_that_is_not_partitioned)
{
	zaris_topology_reset(&topology, 1);
	add(&topology, "a", 1);
	CHECK(!zaris_topology_assign(&topology, 1, 1, 0));
	CHECK(zaris_topology_assign(&topology, 0, 0, 0));
	zaris_map_reset(&map);
	CHECK(zaris_map_install(&map, &topology));
	CHECK_INT(0, zaris_map_owner(&map, 0));
	CHECK_INT(-1, zaris_map_owner(&map, 1));

	zaris_topology_reset(&topology, -1);
	CHECK_INT(0, topology.n_slots);
	zaris_topology_reset(&topology, 16385);
	CHECK_INT(0, topology.n_slots);
}

TEST(a_map_takes_a_topology)
{
	zaris_map_reset(&map);
	CHECK_INT(0, map.generation);
	CHECK_INT(-1, zaris_map_owner(&map, 0));
	fill(&topology, 7);
	topology.nodes[2].role = ZARIS_ROLE_REPLICA;
	topology.nodes[2].primary = 1;
	CHECK(zaris_map_install(&map, &topology));
	CHECK_INT(1, map.generation);
	CHECK_INT(7, map.now.epoch);
	CHECK_INT(0, zaris_map_owner(&map, 0));
	CHECK_INT(0, zaris_map_owner(&map, 5460));
	CHECK_INT(1, zaris_map_owner(&map, 5461));
	CHECK_INT(2, zaris_map_owner(&map, 16383));
	CHECK_INT(1, map.now.nodes[2].primary);

	CHECK_INT(-1, zaris_map_owner(&map, -1));
	CHECK_INT(-1, zaris_map_owner(&map, 16384));
	CHECK_INT(-1, zaris_map_owner(&map, 99999));
	CHECK_INT(-1, zaris_map_owner(&map, INT64_C(2147483648)));
	CHECK_INT(-1, zaris_map_owner(&map, INT64_C(4294967296)));
	CHECK_INT(-1, zaris_map_owner(&map, INT64_MIN));
}

TEST(a_map_refuses_what_is_not_fit)
{
	zaris_map_reset(&map);
	fill(&topology, 7);
	CHECK(zaris_map_install(&map, &topology));

	zaris_topology_reset(&other, ZARIS_MAX_SLOTS); /* empty: no nodes */
	other.epoch = 8;
	check_refused(&other);
	add(&other, "a", 1); /* empty: a node without slots */
	check_refused(&other);

	fill(&other, 6); /* older */
	check_refused(&other);

	fill(&other, 8); /* unsound, as no driver should make it */
	other.owner[5] = 3;
	check_refused(&other);
	other.owner[5] = -2;
	check_refused(&other);
	fill(&other, 8);
	other.nodes[0].primary = 3;
	check_refused(&other);
	fill(&other, 8);
	other.n_slots = 16385;
	check_refused(&other);
	fill(&other, 8);
	other.n_nodes = ZARIS_MAX_NODES + 1;
	check_refused(&other);

	fill(&other, 7); /* as old as ours */
	CHECK(zaris_map_install(&map, &other));
	fill(&other, 8);
	CHECK(zaris_map_install(&map, &other));
	CHECK_INT(8, map.now.epoch);
	fill(&other, 0); /* no epoch is told: it cannot be older, and the known one stays */
	CHECK(zaris_map_install(&map, &other));
	CHECK_INT(8, map.now.epoch);
	fill(&other, 7);
	check_refused(&other);

	zaris_topology_reset(&other, 1); /* another kind of store */
	other.epoch = 1;
	add(&other, "a", 1);
	CHECK(zaris_topology_assign(&other, 0, 0, 0));
	CHECK(zaris_map_install(&map, &other));
	CHECK_INT(1, map.now.epoch);
}

TEST(ids_stay)
{
	ZarisAddress a = address("a", 1);
	ZarisAddress b = address("b", 2);
	ZarisAddress d = address("d", 4);
	int			 id_a,
		id_b,
		id_d;

	zaris_map_reset(&map);
	id_d = zaris_map_node(&map, &d); /* known from a redirect first */
	CHECK_INT(0, id_d);
	CHECK(!map.now.nodes[id_d].listed);
	fill(&topology, 1);
	CHECK(zaris_map_install(&map, &topology));
	id_a = zaris_map_node(&map, &a);
	id_b = zaris_map_node(&map, &b);
	CHECK_INT(id_a, zaris_map_owner(&map, 0));
	CHECK_INT(id_b, zaris_map_owner(&map, 5461));
	CHECK(map.now.nodes[id_a].listed && !map.now.nodes[id_d].listed);

	/* The same nodes in another order, one gone, one new. */
	zaris_topology_reset(&other, ZARIS_MAX_SLOTS);
	other.epoch = 2;
	add(&other, "d", 4);
	add(&other, "b", 2);
	add(&other, "e", 5);
	other.nodes[2].primary = 1;
	CHECK(zaris_topology_assign(&other, 0, 16383, 1));
	CHECK(zaris_map_install(&map, &other));
	CHECK_INT(id_a, zaris_map_node(&map, &a));
	CHECK_INT(id_b, zaris_map_node(&map, &b));
	CHECK_INT(id_d, zaris_map_node(&map, &d));
	CHECK(!map.now.nodes[id_a].listed && map.now.nodes[id_d].listed);
	CHECK_INT(id_b, zaris_map_owner(&map, 0));
	CHECK_INT(id_b, map.now.nodes[zaris_map_node(&map, &(ZarisAddress){"e", 5})].primary);
}

TEST(a_full_table)
{
	char		 host[16];
	ZarisAddress made;
	ZarisAddress late = address("late", 1);
	ZarisAddress later = address("later", 1);
	int			 id;

	zaris_map_reset(&map);
	zaris_topology_reset(&topology, ZARIS_MAX_SLOTS);
	for (int i = 0; i < ZARIS_MAX_NODES; i++)
	{
		snprintf(host, sizeof(host), "n%d", i);
		CHECK_INT(i, add(&topology, host, 1));
	}
	CHECK(zaris_topology_assign(&topology, 0, 16383, 7));
	CHECK(zaris_map_install(&map, &topology));
	CHECK_INT(-1, zaris_map_node(&map, &late)); /* all are listed */

	/* All but one are gone: their ids may be given away, that one's may not, nor that of a patched slot's owner. */
	zaris_topology_reset(&other, ZARIS_MAX_SLOTS);
	add(&other, "n1000", 1);
	CHECK(zaris_topology_assign(&other, 0, 16383, 0));
	CHECK(zaris_map_install(&map, &other));
	CHECK_INT(1000, zaris_map_owner(&map, 0));
	CHECK(zaris_map_patch(&map, 9, 0));
	id = zaris_map_node(&map, &late);
	CHECK(id >= 0 && id != 1000 && id != 0);
	CHECK(zaris_address_equal(&late, &map.now.nodes[id].address));
	CHECK_INT(id, zaris_map_node(&map, &late));

	/* A whole new cluster fits in. */
	zaris_topology_reset(&topology, ZARIS_MAX_SLOTS);
	for (int i = 0; i < ZARIS_MAX_NODES; i++)
	{
		snprintf(host, sizeof(host), "m%d", i);
		add(&topology, host, 1);
		CHECK(zaris_topology_assign(&topology, i * 16, i * 16 + 15, i));
	}
	CHECK(zaris_map_install(&map, &topology));
	for (int i = 0; i < ZARIS_MAX_NODES; i++)
	{
		snprintf(host, sizeof(host), "m%d", i);
		made = address(host, 1);
		CHECK_INT(zaris_map_node(&map, &made), zaris_map_owner(&map, i * 16 + 3));
	}
	CHECK_INT(-1, zaris_map_node(&map, &later));
}

TEST(patches)
{
	uint64_t generation;

	zaris_map_reset(&map);
	CHECK(!zaris_map_patch(&map, 0, 0)); /* nothing is known */
	fill(&topology, 1);
	CHECK(zaris_map_install(&map, &topology));
	generation = map.generation;
	CHECK(!zaris_map_patch(&map, 99999, 0));
	CHECK(!zaris_map_patch(&map, 16384, 0));
	CHECK(!zaris_map_patch(&map, -1, 0));
	CHECK(!zaris_map_patch(&map, INT64_C(2147483648), 0));
	CHECK(!zaris_map_patch(&map, INT64_C(4294967296), 0));
	CHECK(!zaris_map_patch(&map, 0, 3));
	CHECK(!zaris_map_patch(&map, 0, -1));
	CHECK_INT(generation, map.generation);

	CHECK(zaris_map_patch(&map, 0, 2));
	CHECK_INT(2, zaris_map_owner(&map, 0));
	CHECK_INT(0, zaris_map_owner(&map, 1));
	CHECK_INT(generation + 1, map.generation);
	CHECK(zaris_map_patch(&map, 0, 2)); /* said again by others: nothing new */
	CHECK_INT(generation + 1, map.generation);

	CHECK(zaris_map_install(&map, &topology)); /* a newer map undoes a patch */
	CHECK_INT(0, zaris_map_owner(&map, 0));
}

TEST(a_number_for_a_name)
{
	ZarisAddress number = address("10.0.0.5", 7000);
	ZarisAddress other_port = address("10.0.0.5", 7001);

	zaris_map_reset(&map);
	zaris_topology_reset(&topology, ZARIS_MAX_SLOTS);
	add(&topology, "a.example", 7000);
	strcpy(topology.nodes[0].ip, "10.0.0.5");
	CHECK(zaris_topology_assign(&topology, 0, 16383, 0));
	CHECK(zaris_map_install(&map, &topology));
	CHECK_INT(0, zaris_map_node(&map, &number));
	CHECK_INT(1, zaris_map_node(&map, &other_port));
}

int
main(void)
{
	RUN(addresses_are_bounded);
	RUN(addresses_as_text);
	RUN(nodes_of_a_topology);
	RUN(slots_of_a_topology);
	RUN(a_store_that_is_not_partitioned);
	RUN(a_map_takes_a_topology);
	RUN(a_map_refuses_what_is_not_fit);
	RUN(ids_stay);
	RUN(a_full_table);
	RUN(patches);
	RUN(a_number_for_a_name);
	return test_end();
}
