/*
 * topology.h
 *	  What a node says of its cluster -> ZarisTopology.  Pure.
 *
 *		CLUSTER SHARDS	(7.0 on) shards, their slots and nodes, with role and health: the best source
 *		CLUSTER SLOTS	ranges with their nodes; no health, no epoch
 *		ROLE			of a server that is no cluster node: primary or replica; slot 0 of 1
 *
 * in RESP2's shapes (flat arrays) and RESP3's (maps).
 *
 * Addresses (DESIGN 7): a host that is nil or empty is the host that answered; "?" is unknown and never dialled, so the
 * numeric address beside it is used, or the node is left out.  A node that is only reachable with TLS is left out.
 *
 * All return Ok, or ProtocolError for what is malformed or out of bounds, or Unavailable for a map without a single
 * slot (a node that was taken out of its cluster says that); then *problem is a static text.
 */
#ifndef ZARIS_RESP_TOPOLOGY_H
#define ZARIS_RESP_TOPOLOGY_H

#include "client/map.h"
#include "client/status.h"
#include "stores/resp/reader.h"

extern ZarisStatus zaris_resp_read_shards(const ZarisReply *reply, const ZarisAddress *origin,
										  ZarisTopology *topology, const char **problem);
extern ZarisStatus zaris_resp_read_slots(const ZarisReply *reply, const ZarisAddress *origin,
										 ZarisTopology *topology, const char **problem);
extern ZarisStatus zaris_resp_read_role(const ZarisReply *reply, const ZarisAddress *origin,
										ZarisTopology *topology, const char **problem);

/* One node that is all there is: when it may not be asked for its role. */
extern void zaris_resp_single_node(const ZarisAddress *origin, ZarisTopology *topology);

/* The number behind "name:" in the text of INFO or CLUSTER INFO; false: it is not there. */
extern bool zaris_resp_info_number(const ZarisReply *reply, const char *name, uint64_t *number);

#endif /* ZARIS_RESP_TOPOLOGY_H */
