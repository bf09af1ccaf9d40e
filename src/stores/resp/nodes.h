/*
 * nodes.h
 *	  The text of CLUSTER NODES, from the point of view of the node that wrote it.  Pure.
 *
 *	  <id> <ip:port@bus[,hostname[,key=value]...]> <flag,...> <primary id|-> <ping> <pong> <epoch> <link> [slot ...]
 *
 *	  slot:	7		0-5460		[93->-<id>] leaving to id		[93-<-<id>] coming from id
 *
 * It is the only thing that tells epochs and open slots; open slots only of the node itself.
 */
#ifndef ZARIS_RESP_NODES_H
#define ZARIS_RESP_NODES_H

#include "client/store.h"

/* zaris_batch_alloc, or a test's */
typedef void *(*ZarisAllocate)(void *context, size_t size);

/*
 * Parse it.  origin: whom we asked, since a node may not know its own address.  Ok with
 * *state, ProtocolError for text that is none of this, or NoMemory.
 */
extern ZarisStatus zaris_nodes_parse(const char *text, size_t len, const ZarisAddress *origin,
									 ZarisAllocate allocate, void *context, ZarisNodeState **state);

#endif /* ZARIS_RESP_NODES_H */
