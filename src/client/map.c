/*
 * map.c
 *	  The cluster map (map.h): topologies are checked and taken, addresses keep their ids.
 *
 * Nothing from the wire is used as an index before it has been compared with a bound (I15): a node that answers
 * "MOVED 99999 x:99999" is an everyday attack on clients.
 */
#include "client/map.h"

#include <stdio.h>
#include <string.h>

#include "client/check.h"

/* addresses */

bool
zaris_address_set(ZarisAddress *address, const char *host, size_t host_len, int64_t port)
{
	if (host == NULL || host_len == 0 || host_len >= ZARIS_HOST_LEN)
		return false;

	/* "?" is a cluster's word for "I do not know": never to be dialled. */
	if (host_len == 1 && host[0] == '?')
		return false;
	if (memchr(host, '\0', host_len) != NULL)
		return false;
	if (port < 1 || port > 65535)
		return false;

	memcpy(address->host, host, host_len);
	address->host[host_len] = '\0';
	address->port = (int) port;
	return true;
}

bool
zaris_address_equal(const ZarisAddress *a, const ZarisAddress *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *
zaris_address_text(const ZarisAddress *address, char text[ZARIS_ADDRESS_TEXT])
{
	if (address->port == 0)
		snprintf(text, ZARIS_ADDRESS_TEXT, "%s", address->host);
	else if (strchr(address->host, ':') != NULL)
		snprintf(text, ZARIS_ADDRESS_TEXT, "[%s]:%d", address->host, address->port);
	else
		snprintf(text, ZARIS_ADDRESS_TEXT, "%s:%d", address->host, address->port);
	return text;
}

/* topology */

void
zaris_topology_reset(ZarisTopology *topology, int n_slots)
{
	/* With a count that cannot be, there are no slots, so nothing can be assigned. */
	if (n_slots < 0 || n_slots > ZARIS_MAX_SLOTS)
		n_slots = 0;

	topology->epoch = 0;
	topology->n_slots = n_slots;
	topology->n_nodes = 0; /* nodes behind it are not read, so they are not cleared */
	for (int i = 0; i < ZARIS_MAX_SLOTS; i++)
		topology->owner[i] = -1;
}

static int
find_node(const ZarisTopology *topology, const ZarisAddress *address)
{
	for (int i = 0; i < topology->n_nodes; i++)
	{
		if (zaris_address_equal(&topology->nodes[i].address, address))
			return i;
	}
	return -1;
}

static void
node_reset(ZarisNode *node, const ZarisAddress *address)
{
	memset(node, 0, sizeof(*node));
	node->address = *address;
	node->role = ZARIS_ROLE_UNKNOWN;
	node->health = ZARIS_HEALTH_UNKNOWN;
	node->primary = -1;
}

int
zaris_topology_add_node(ZarisTopology *topology, const char *host, size_t host_len, int port)
{
	ZarisAddress address;
	int			 found;

	/* A unix socket is a node as well, but address_set is for what comes from the wire. */
	if (port == 0)
	{
		if (host == NULL || host_len == 0 || host_len >= ZARIS_HOST_LEN || memchr(host, '\0', host_len) != NULL)
			return -1;
		memcpy(address.host, host, host_len);
		address.host[host_len] = '\0';
		address.port = 0;
	}
	else if (!zaris_address_set(&address, host, host_len, port))
		return -1;

	found = find_node(topology, &address);
	if (found >= 0)
		return found;
	if (topology->n_nodes >= ZARIS_MAX_NODES)
		return -1;

	node_reset(&topology->nodes[topology->n_nodes], &address);
	topology->nodes[topology->n_nodes].listed = true;
	return topology->n_nodes++;
}

bool
zaris_topology_assign(ZarisTopology *topology, int64_t first_slot, int64_t last_slot, int node)
{
	if (first_slot < 0 || last_slot < first_slot || last_slot >= topology->n_slots)
		return false;
	if (node < 0 || node >= topology->n_nodes)
		return false;

	/* Two owners for one slot: neither is believed. Looked for first, so that nothing is half done. */
	for (int64_t slot = first_slot; slot <= last_slot; slot++)
	{
		if (topology->owner[slot] >= 0)
			return false;
	}
	for (int64_t slot = first_slot; slot <= last_slot; slot++)
		topology->owner[slot] = (int16_t) node;
	return true;
}

bool
zaris_topology_is_empty(const ZarisTopology *topology)
{
	for (int slot = 0; slot < topology->n_slots; slot++)
	{
		if (topology->owner[slot] >= 0)
			return false;
	}
	return true;
}

/* map */

void
zaris_map_reset(ZarisMap *map)
{
	map->generation = 0;
	zaris_topology_reset(&map->now, 0);
}

/* A topology is a driver's work; what the map indexes with is checked here all the same (I15). */
static bool
topology_is_sound(const ZarisTopology *topology)
{
	if (topology->n_slots < 1 || topology->n_slots > ZARIS_MAX_SLOTS)
		return false;
	if (topology->n_nodes < 1 || topology->n_nodes > ZARIS_MAX_NODES)
		return false;
	for (int slot = 0; slot < topology->n_slots; slot++)
	{
		if (topology->owner[slot] < -1 || topology->owner[slot] >= topology->n_nodes)
			return false;
	}
	for (int i = 0; i < topology->n_nodes; i++)
	{
		if (topology->nodes[i].primary < -1 || topology->nodes[i].primary >= topology->n_nodes)
			return false;
	}
	return true;
}

/*
 * Epoch 0 means that the store tells none: then nothing can be older.  Nor can epochs be compared when the store
 * is no longer the same kind of thing (a cluster became a single node).
 */
static bool
is_older(const ZarisMap *map, const ZarisTopology *topology)
{
	if (map->generation == 0 || map->now.n_slots != topology->n_slots)
		return false;
	return topology->epoch != 0 && topology->epoch < map->now.epoch;
}

/* An id for a new address: behind the last one, or that of a node nobody names any more. -1 = none. */
static int
vacant_id(ZarisMap *map)
{
	bool owns[ZARIS_MAX_NODES] = {false};

	if (map->now.n_nodes < ZARIS_MAX_NODES)
		return map->now.n_nodes++;

	for (int slot = 0; slot < map->now.n_slots; slot++)
	{
		if (map->now.owner[slot] >= 0)
			owns[map->now.owner[slot]] = true;
	}
	for (int id = 0; id < ZARIS_MAX_NODES; id++)
	{
		if (!map->now.nodes[id].listed && !owns[id])
			return id;
	}
	return -1;
}

/*
 * Give every node of the topology its id: those that are known first, so that no id of theirs is given away.
 * There is always room: known and new ones together are ZARIS_MAX_NODES at most, and no slot has an owner while
 * this runs.
 */
static void
assign_ids(ZarisMap *map, const ZarisTopology *topology, int16_t *ids)
{
	for (int id = 0; id < map->now.n_nodes; id++)
		map->now.nodes[id].listed = false;

	for (int i = 0; i < topology->n_nodes; i++)
	{
		ids[i] = (int16_t) find_node(&map->now, &topology->nodes[i].address);
		if (ids[i] >= 0)
			map->now.nodes[ids[i]].listed = true;
	}
	for (int i = 0; i < topology->n_nodes; i++)
	{
		int id;

		if (ids[i] >= 0)
			continue;

		/* An address that stands there twice (add_node() does not do that) has one id all the same. */
		id = find_node(&map->now, &topology->nodes[i].address);
		if (id < 0)
			id = vacant_id(map);
		ZARIS_ASSERT(id >= 0);
		node_reset(&map->now.nodes[id], &topology->nodes[i].address);
		map->now.nodes[id].listed = true;
		ids[i] = (int16_t) id;
	}
}

bool
zaris_map_install(ZarisMap *map, const ZarisTopology *topology)
{
	int16_t ids[ZARIS_MAX_NODES];

	if (!topology_is_sound(topology) || zaris_topology_is_empty(topology) || is_older(map, topology))
		return false;

	/* A store that tells no epoch this time does not make the known one void. */
	if (topology->epoch != 0 || map->now.n_slots != topology->n_slots)
		map->now.epoch = topology->epoch;
	map->now.n_slots = topology->n_slots;
	for (int slot = 0; slot < ZARIS_MAX_SLOTS; slot++)
		map->now.owner[slot] = -1;

	assign_ids(map, topology, ids);
	for (int i = 0; i < topology->n_nodes; i++)
	{
		ZarisNode *node = &map->now.nodes[ids[i]];

		*node = topology->nodes[i];
		node->listed = true;
		if (node->primary >= 0)
			node->primary = ids[node->primary];
	}
	for (int slot = 0; slot < topology->n_slots; slot++)
	{
		if (topology->owner[slot] >= 0)
			map->now.owner[slot] = ids[topology->owner[slot]];
	}
	map->generation++;
	return true;
}

/*
 * A redirect may name a node by number that the topology names by host name; both are one node, with one
 * connection.
 */
static int
find_alias(const ZarisMap *map, const ZarisAddress *address)
{
	for (int id = 0; id < map->now.n_nodes; id++)
	{
		const ZarisNode *node = &map->now.nodes[id];

		if (node->listed && node->ip[0] != '\0' && node->address.port == address->port &&
			strcmp(node->ip, address->host) == 0)
			return id;
	}
	return -1;
}

int
zaris_map_node(ZarisMap *map, const ZarisAddress *address)
{
	int id = find_node(&map->now, address);

	if (id < 0)
		id = find_alias(map, address);
	if (id >= 0)
		return id;

	id = vacant_id(map);
	if (id >= 0)
		node_reset(&map->now.nodes[id], address);
	return id;
}

bool
zaris_map_patch(ZarisMap *map, int64_t slot, int node)
{
	if (slot < 0 || slot >= map->now.n_slots || node < 0 || node >= map->now.n_nodes)
		return false;

	/* A hundred operations that hear the same MOVED change the map once. */
	if (map->now.owner[slot] != node)
	{
		map->now.owner[slot] = (int16_t) node;
		map->generation++;
	}
	return true;
}

int
zaris_map_owner(const ZarisMap *map, int64_t slot)
{
	if (slot < 0 || slot >= map->now.n_slots)
		return -1;
	return map->now.owner[slot];
}
