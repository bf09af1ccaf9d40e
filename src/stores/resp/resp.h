/*
 * resp.h
 *	  The RESP store: Redis and Valkey, a cluster or one node that is none, over TCP or a unix socket.
 *
 * Parts, from the wire up:	reader (bytes -> replies), compose (commands -> bytes), connection (one stream, its login,
 * its ring of entries), commands and pages (operations <-> commands and replies), scripts (conditional writes),
 * classify (errors -> statuses), nodes and topology (what servers say of their cluster), fetch (the map), and this:
 * the driver that the core calls.
 */
#ifndef ZARIS_RESP_RESP_H
#define ZARIS_RESP_RESP_H

#include "client/store.h"

extern const ZarisStoreDriver zaris_resp_driver;

#endif /* ZARIS_RESP_RESP_H */
