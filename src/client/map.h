/*
 * map.h
 *	  The cluster map: slot -> node, and the nodes.  Pure, and a hint only: the store is the authority (I5).
 *
 * A driver fills a ZarisTopology from what a node said; zaris_map_install() takes it into the map if it is fit
 * to be taken (not empty, in bounds, disjoint, epoch not older).  A refused topology leaves the map as it was.
 *
 * Node ids are indexes into map->nodes.  An address keeps its id for as long as the map exists, so that
 * connections, visited lists and (later) breakers can be kept by id; only when the table is full are the ids
 * of nodes that no topology names any more given away again, so whoever keeps something by id compares the
 * address too (zaris_address_equal).
 *
 * Laid out without pointers, so that it can lie in shared memory.
 */
#ifndef ZARIS_CLIENT_MAP_H
#define ZARIS_CLIENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZARIS_MAX_SLOTS 16384
#define ZARIS_MAX_NODES 1024
#define ZARIS_HOST_LEN	256 /* a host name or a socket's path, NUL included */

typedef struct ZarisAddress
{
	char host[ZARIS_HOST_LEN]; /* IPv6 without brackets; a path when port is 0 */
	int	 port;				   /* 1..65535; 0 = host is a unix socket's path */
} ZarisAddress;

/* room for "[host]:65535" */
#define ZARIS_ADDRESS_TEXT (ZARIS_HOST_LEN + 16)

typedef enum ZarisRole
{
	ZARIS_ROLE_UNKNOWN, /* a seed, or known from a redirect only */
	ZARIS_ROLE_PRIMARY,
	ZARIS_ROLE_REPLICA
} ZarisRole;

typedef enum ZarisHealth
{
	ZARIS_HEALTH_UNKNOWN,
	ZARIS_HEALTH_ONLINE,
	ZARIS_HEALTH_LOADING,
	ZARIS_HEALTH_FAIL
} ZarisHealth;

typedef struct ZarisNode
{
	ZarisAddress address;
	char		 ip[48]; /* numeric address of a node whose endpoint is a name; "" = not told */
	ZarisRole	 role;
	ZarisHealth	 health;
	int			 primary; /* id of a replica's primary, or -1 */
	bool		 listed;  /* named by the newest topology */
} ZarisNode;

typedef struct ZarisTopology
{
	uint64_t  epoch;   /* the cluster's current epoch; 0 where there is none */
	int		  n_slots; /* 16384, or 1 for a store that is not partitioned */
	int		  n_nodes;
	ZarisNode nodes[ZARIS_MAX_NODES];
	int16_t	  owner[ZARIS_MAX_SLOTS]; /* index into nodes, or -1 */
} ZarisTopology;

typedef struct ZarisMap
{
	uint64_t	  generation; /* 0 = no topology was ever taken; +1 with each that is taken, and with each patch */
	ZarisTopology now;
} ZarisMap;

/* topology: for drivers.  All return false (or -1) and change nothing when the argument is out of bounds. */
extern void zaris_topology_reset(ZarisTopology *topology, int n_slots);
extern int	zaris_topology_add_node(ZarisTopology *topology, const char *host, size_t host_len, int port);	 /* its index; an address that is there already is found, not doubled */
extern bool zaris_topology_assign(ZarisTopology *topology, int64_t first_slot, int64_t last_slot, int node); /* false also when a slot has an owner already */
extern bool zaris_topology_is_empty(const ZarisTopology *topology);											 /* owns no slot */

/* map */
extern void zaris_map_reset(ZarisMap *map);

/*
 * Take a topology.  False: it was refused (empty, or its epoch is older than the map's), and the map is as
 * it was.
 */
extern bool zaris_map_install(ZarisMap *map, const ZarisTopology *topology);

/* The id of an address, entered as an unlisted node of unknown role when it is new; -1 when the table is full. */
extern int zaris_map_node(ZarisMap *map, const ZarisAddress *address);

/* Let a redirect (MOVED) correct one slot.  False when slot or node is out of bounds. */
extern bool zaris_map_patch(ZarisMap *map, int64_t slot, int node);

/* The owner's id, or -1 when the slot has none (or is out of bounds). */
extern int zaris_map_owner(const ZarisMap *map, int64_t slot);

/* addresses */
extern bool		   zaris_address_set(ZarisAddress *address, const char *host, size_t host_len, int64_t port); /* false: empty, "?", too long, NUL inside, port not in 1..65535 */
extern bool		   zaris_address_equal(const ZarisAddress *a, const ZarisAddress *b);
extern const char *zaris_address_text(const ZarisAddress *address, char text[ZARIS_ADDRESS_TEXT]); /* "host:port", "[v6]:port" or the path; returns text */

#endif /* ZARIS_CLIENT_MAP_H */
