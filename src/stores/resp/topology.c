/*
 * topology.c
 *	  CLUSTER SHARDS, CLUSTER SLOTS and ROLE -> ZarisTopology: see topology.h.
 */
#include <string.h>

#include "stores/resp/topology.h"

/* A node as SHARDS or SLOTS describe it. Replies point into the reply that is being read. */
typedef struct NodeText
{
	ZarisReply endpoint;
	ZarisReply ip;
	ZarisReply role;
	ZarisReply health;
	int64_t	   port; /* 0 = not told */
} NodeText;

static bool
is_list(const ZarisReply *reply)
{
	return reply->type == ZARIS_REPLY_ARRAY || reply->type == ZARIS_REPLY_MAP || reply->type == ZARIS_REPLY_SET;
}

static bool
has_text(const ZarisReply *reply)
{
	return zaris_reply_is_text(reply) && reply->len > 0;
}

/* The next element, and the walk behind all of it. */
static bool
take_whole(ZarisReplyWalk *walk, ZarisReply *item)
{
	if (!zaris_reply_take(walk, item))
		return false;
	zaris_reply_skip(walk, item);
	return true;
}

/* A key and its value, of a map or of an array that stands for one. */
static bool
take_pair(ZarisReplyWalk *walk, ZarisReply *name, ZarisReply *value)
{
	return take_whole(walk, name) && take_whole(walk, value);
}

static const char *
origin_host(const ZarisAddress *origin)
{
	return origin->port > 0 ? origin->host : "127.0.0.1";
}

static bool
is_host(const ZarisNode *node, const ZarisReply *text)
{
	return strlen(node->address.host) == text->len && memcmp(node->address.host, text->data, text->len) == 0;
}

/*
 * Enter a node. Its index; -1: it cannot be reached by us; -2: the reply is malformed.
 */
static int
add_node(ZarisTopology *topology, const NodeText *text, const ZarisAddress *origin)
{
	bool	   unknown = zaris_reply_equals(&text->endpoint, "?");
	ZarisNode *node;
	int		   index;

	if (text->port == 0 || (unknown && !has_text(&text->ip)))
		return -1;
	if (unknown)
		index = zaris_topology_add_node(topology, text->ip.data, text->ip.len, (int) text->port);
	else if (has_text(&text->endpoint))
		index = zaris_topology_add_node(topology, text->endpoint.data, text->endpoint.len, (int) text->port);
	else
		index = zaris_topology_add_node(topology, origin_host(origin), strlen(origin_host(origin)), (int) text->port);
	if (index < 0)
		return -2;

	node = &topology->nodes[index];
	if (has_text(&text->endpoint) && has_text(&text->ip) && text->ip.len < sizeof(node->ip) &&
		memchr(text->ip.data, '\0', text->ip.len) == NULL && !is_host(node, &text->ip))
	{
		memcpy(node->ip, text->ip.data, text->ip.len);
		node->ip[text->ip.len] = '\0';
	}
	if (zaris_reply_equals(&text->health, "online"))
		node->health = ZARIS_HEALTH_ONLINE;
	else if (zaris_reply_equals(&text->health, "loading"))
		node->health = ZARIS_HEALTH_LOADING;
	else if (has_text(&text->health))
		node->health = ZARIS_HEALTH_FAIL;
	return index;
}

static ZarisStatus
malformed(const char **problem)
{
	*problem = "the cluster's description of itself is malformed or out of bounds";
	return ZARIS_PROTOCOL_ERROR;
}

static ZarisStatus
check_not_empty(const ZarisTopology *topology, const char **problem)
{
	if (!zaris_topology_is_empty(topology))
		return ZARIS_OK;
	*problem = "the node knows no slot that can be reached; it may have been taken out of its cluster";
	return ZARIS_UNAVAILABLE;
}

/* SHARDS */

static bool
parse_shard_node(const ZarisReply *reply, NodeText *node)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);

	*node = (NodeText){0};
	if (!is_list(reply) || reply->count % 2 != 0)
		return false;
	for (size_t i = 0; i < reply->count / 2; i++)
	{
		ZarisReply name;
		ZarisReply value;

		if (!take_pair(&walk, &name, &value))
			return false;
		if (zaris_reply_equals(&name, "endpoint"))
			node->endpoint = value;
		else if (zaris_reply_equals(&name, "ip"))
			node->ip = value;
		else if (zaris_reply_equals(&name, "role"))
			node->role = value;
		else if (zaris_reply_equals(&name, "health"))
			node->health = value;
		else if (zaris_reply_equals(&name, "port"))
		{
			if (value.type != ZARIS_REPLY_INTEGER || value.integer < 0 || value.integer > 65535)
				return false;
			node->port = value.integer;
		}
	}
	return true;
}

/*
 * Which of a shard's nodes is its primary: after a failover the old one may still call itself so, and then it is not
 * online.  A shard without any that is keeps its slots: better a node that fails than slots without an owner.
 */
static bool
find_primary(const ZarisReply *nodes, size_t *primary)
{
	ZarisReplyWalk walk = zaris_reply_walk(nodes);
	int			   best = 0;

	*primary = SIZE_MAX;
	for (size_t i = 0; i < nodes->count; i++)
	{
		ZarisReply item;
		NodeText   node;
		int		   rank;

		if (!take_whole(&walk, &item) || !parse_shard_node(&item, &node))
			return false;
		if (!zaris_reply_equals(&node.role, "master"))
			continue;
		rank = zaris_reply_equals(&node.health, "online") ? 3 : zaris_reply_equals(&node.health, "loading") ? 2
																											: 1;
		if (rank > best)
		{
			best = rank;
			*primary = i;
		}
	}
	return true;
}

/* The index of the shard's primary; -1 = it has none that can be reached. */
static bool
add_shard_nodes(ZarisTopology *topology, const ZarisReply *nodes, const ZarisAddress *origin, int *primary_index)
{
	ZarisReplyWalk walk = zaris_reply_walk(nodes);
	size_t		   primary;

	*primary_index = -1;
	if (!find_primary(nodes, &primary))
		return false;

	/* the primary first, so that the others can point to it */
	for (int pass = 0; pass < 2; pass++)
	{
		walk = zaris_reply_walk(nodes);
		for (size_t i = 0; i < nodes->count; i++)
		{
			ZarisReply item;
			NodeText   node;
			int		   index;

			if (!take_whole(&walk, &item) || !parse_shard_node(&item, &node))
				return false;
			if ((i == primary) != (pass == 0))
				continue;
			index = add_node(topology, &node, origin);
			if (index == -2)
				return false;
			if (index < 0)
				continue;
			topology->nodes[index].role = pass == 0 ? ZARIS_ROLE_PRIMARY : ZARIS_ROLE_REPLICA;
			topology->nodes[index].primary = pass == 0 ? -1 : *primary_index;
			if (pass == 0)
				*primary_index = index;
		}
	}
	return true;
}

static bool
assign_pairs(ZarisTopology *topology, const ZarisReply *slots, int node)
{
	ZarisReplyWalk walk = zaris_reply_walk(slots);

	if (!is_list(slots) || slots->count % 2 != 0)
		return false;
	for (size_t i = 0; i < slots->count / 2; i++)
	{
		ZarisReply first;
		ZarisReply last;

		if (!take_pair(&walk, &first, &last) ||
			first.type != ZARIS_REPLY_INTEGER || last.type != ZARIS_REPLY_INTEGER)
			return false;
		if (node >= 0 && !zaris_topology_assign(topology, first.integer, last.integer, node))
			return false;
	}
	return true;
}

static bool
read_shard(ZarisTopology *topology, const ZarisReply *shard, const ZarisAddress *origin)
{
	ZarisReplyWalk walk = zaris_reply_walk(shard);
	ZarisReply	   slots = {0};
	ZarisReply	   nodes = {0};
	int			   primary;

	if (!is_list(shard) || shard->count % 2 != 0)
		return false;
	for (size_t i = 0; i < shard->count / 2; i++)
	{
		ZarisReply name;
		ZarisReply value;

		if (!take_pair(&walk, &name, &value))
			return false;
		if (zaris_reply_equals(&name, "slots"))
			slots = value;
		else if (zaris_reply_equals(&name, "nodes"))
			nodes = value;
	}
	return is_list(&nodes) && add_shard_nodes(topology, &nodes, origin, &primary) &&
		   assign_pairs(topology, &slots, primary);
}

ZarisStatus
zaris_resp_read_shards(const ZarisReply *reply, const ZarisAddress *origin, ZarisTopology *topology, const char **problem)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);

	zaris_topology_reset(topology, ZARIS_MAX_SLOTS);
	if (!is_list(reply))
		return malformed(problem);
	for (size_t i = 0; i < reply->count; i++)
	{
		ZarisReply shard;

		if (!take_whole(&walk, &shard) || !read_shard(topology, &shard, origin))
			return malformed(problem);
	}
	return check_not_empty(topology, problem);
}

/* SLOTS */

/* The metadata behind a node: a map, or an array that stands for one. */
static void
find_ip(const ZarisReply *metadata, NodeText *node)
{
	ZarisReplyWalk walk = zaris_reply_walk(metadata);
	ZarisReply	   name;
	ZarisReply	   value;

	for (size_t i = 0; i < metadata->count / 2 && take_pair(&walk, &name, &value); i++)
		if (zaris_reply_equals(&name, "ip"))
			node->ip = value;
}

/* [endpoint, port, id, metadata] */
static bool
parse_slots_node(const ZarisReply *reply, NodeText *node)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);
	ZarisReply	   item;

	*node = (NodeText){0};
	if (!is_list(reply) || reply->count < 2 || !take_whole(&walk, &node->endpoint) ||
		!take_whole(&walk, &item) || item.type != ZARIS_REPLY_INTEGER || item.integer < 0 || item.integer > 65535)
		return false;
	if (node->endpoint.type != ZARIS_REPLY_NIL && !zaris_reply_is_text(&node->endpoint))
		return false;
	node->port = item.integer;
	for (size_t i = 2; i < reply->count; i++)
	{
		if (!take_whole(&walk, &item))
			return false;
		if (i == 3 && is_list(&item))
			find_ip(&item, node);
	}
	return true;
}

/* [first, last, primary, replica ...] */
static bool
read_range(ZarisTopology *topology, const ZarisReply *range, const ZarisAddress *origin)
{
	ZarisReplyWalk walk = zaris_reply_walk(range);
	ZarisReply	   first;
	ZarisReply	   last;
	int			   primary = -1;

	if (!is_list(range) || range->count < 3 || !take_pair(&walk, &first, &last) ||
		first.type != ZARIS_REPLY_INTEGER || last.type != ZARIS_REPLY_INTEGER)
		return false;
	for (size_t i = 2; i < range->count; i++)
	{
		ZarisReply item;
		NodeText   node;
		int		   index;

		if (!take_whole(&walk, &item) || !parse_slots_node(&item, &node))
			return false;
		index = add_node(topology, &node, origin);
		if (index == -2)
			return false;
		if (index < 0)
			continue;
		topology->nodes[index].role = i == 2 ? ZARIS_ROLE_PRIMARY : ZARIS_ROLE_REPLICA;
		topology->nodes[index].primary = i == 2 ? -1 : primary;
		if (i == 2)
			primary = index;
	}
	return primary < 0 || zaris_topology_assign(topology, first.integer, last.integer, primary);
}

ZarisStatus
zaris_resp_read_slots(const ZarisReply *reply, const ZarisAddress *origin, ZarisTopology *topology, const char **problem)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);

	zaris_topology_reset(topology, ZARIS_MAX_SLOTS);
	if (!is_list(reply))
		return malformed(problem);
	for (size_t i = 0; i < reply->count; i++)
	{
		ZarisReply range;

		if (!take_whole(&walk, &range) || !read_range(topology, &range, origin))
			return malformed(problem);
	}
	return check_not_empty(topology, problem);
}

/* ROLE */

/* The node that was asked, which may be a socket. */
static int
add_origin(ZarisTopology *topology, const ZarisAddress *origin, ZarisRole role)
{
	int index = zaris_topology_add_node(topology, origin->host, strlen(origin->host), origin->port);

	if (index >= 0)
	{
		topology->nodes[index].role = role;
		topology->nodes[index].health = ZARIS_HEALTH_ONLINE;
	}
	return index;
}

void
zaris_resp_single_node(const ZarisAddress *origin, ZarisTopology *topology)
{
	zaris_topology_reset(topology, 1);
	zaris_topology_assign(topology, 0, 0, add_origin(topology, origin, ZARIS_ROLE_PRIMARY));
}

/* An integer, or digits: the servers do not agree. */
static bool
read_port(const ZarisReply *reply, int *port)
{
	uint64_t number;

	if (reply->type == ZARIS_REPLY_INTEGER && reply->integer > 0 && reply->integer <= 65535)
		number = (uint64_t) reply->integer;
	else if (!zaris_reply_is_text(reply) || !zaris_digits(reply->data, reply->len, 65535, &number) || number == 0)
		return false;
	*port = (int) number;
	return true;
}

/* [master, offset, [[ip, port, offset] ...]] */
static bool
read_primary(ZarisTopology *topology, ZarisReplyWalk *walk, const ZarisAddress *origin)
{
	ZarisReply item;

	zaris_resp_single_node(origin, topology);
	if (!take_whole(walk, &item) || !zaris_reply_take(walk, &item) || !is_list(&item))
		return false;
	for (size_t left = item.count; left > 0; left--)
	{
		ZarisReply	   replica;
		ZarisReplyWalk inside;
		ZarisReply	   host;
		ZarisReply	   port_text;
		int			   port;
		int			   index;

		if (!take_whole(walk, &replica) || !is_list(&replica) || replica.count < 2)
			return false;
		inside = zaris_reply_walk(&replica);
		if (!take_pair(&inside, &host, &port_text) || !has_text(&host) || !read_port(&port_text, &port))
			return false;
		index = zaris_topology_add_node(topology, host.data, host.len, port);
		if (index <= 0)
			continue;
		topology->nodes[index].role = ZARIS_ROLE_REPLICA;
		topology->nodes[index].primary = 0;
	}
	return true;
}

/* [slave, primary's ip, its port, state, offset] */
static bool
read_replica(ZarisTopology *topology, ZarisReplyWalk *walk, const ZarisAddress *origin)
{
	ZarisReply host;
	ZarisReply port_text;
	ZarisReply state;
	int		   port;
	int		   primary;
	int		   replica;

	zaris_topology_reset(topology, 1);
	if (!take_pair(walk, &host, &port_text) || !has_text(&host) || !read_port(&port_text, &port) ||
		!take_whole(walk, &state))
		return false;
	primary = zaris_topology_add_node(topology, host.data, host.len, port);
	if (primary < 0 || !zaris_topology_assign(topology, 0, 0, primary))
		return false;
	topology->nodes[primary].role = ZARIS_ROLE_PRIMARY;
	topology->nodes[primary].primary = -1;
	if (zaris_reply_equals(&state, "connected"))
		topology->nodes[primary].health = ZARIS_HEALTH_ONLINE;
	replica = add_origin(topology, origin, ZARIS_ROLE_REPLICA);
	if (replica >= 0)
		topology->nodes[replica].primary = primary;
	return replica >= 0 && replica != primary; /* a replica of itself: two nodes behind one address */
}

ZarisStatus
zaris_resp_read_role(const ZarisReply *reply, const ZarisAddress *origin, ZarisTopology *topology, const char **problem)
{
	ZarisReplyWalk walk = zaris_reply_walk(reply);
	ZarisReply	   role;

	if (!is_list(reply) || reply->count < 2 || !take_whole(&walk, &role))
		return malformed(problem);
	if (zaris_reply_equals(&role, "master") && reply->count >= 3)
		return read_primary(topology, &walk, origin) ? ZARIS_OK : malformed(problem);
	if (zaris_reply_equals(&role, "slave") && reply->count >= 5)
		return read_replica(topology, &walk, origin) ? ZARIS_OK : malformed(problem);
	if (zaris_reply_equals(&role, "sentinel"))
	{
		*problem = "the node is a Sentinel, which holds no data; name the servers that it watches";
		return ZARIS_INVALID_REQUEST;
	}
	return malformed(problem);
}

/* INFO */

bool
zaris_resp_info_number(const ZarisReply *reply, const char *name, uint64_t *number)
{
	const char *at;
	const char *end;
	const char *digits;

	if (!zaris_reply_is_text(reply))
		return false;
	end = reply->data + reply->len;
	for (at = reply->data; at < end; at++)
	{
		const char *line_end = memchr(at, '\n', end - at);

		if (line_end == NULL)
			line_end = end;
		if ((size_t) (line_end - at) > strlen(name) && memcmp(at, name, strlen(name)) == 0 && at[strlen(name)] == ':')
		{
			digits = at + strlen(name) + 1;
			while (line_end > digits && (line_end[-1] == '\r' || line_end[-1] == '\n'))
				line_end--;
			return zaris_digits(digits, line_end - digits, UINT64_MAX, number);
		}
		at = line_end;
	}
	return false;
}
