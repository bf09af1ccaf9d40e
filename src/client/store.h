/*
 * store.h
 *	  The driver contract: what a store must offer so that the core can run operations on it.
 *
 * Called by client.c and scan.c only.  The core asks capabilities, never "which store are you".  A driver
 * does no retrying and takes no decision: it turns one attempt of an operation into exactly one ZarisAnswer,
 * and a fetch of the map into exactly one call of map_fetched.
 *
 * Legal order: open; then submit*, flush, ... in any number; close.  A submit composes; a flush lets go what
 * was composed (one write a node).  Answers come through the callbacks, out of zaris_loop_turn() or, for a store
 * that needs no waiting, out of flush itself; never out of submit.
 *
 * None of these functions blocks or raises.  After detach() the driver knows nothing any more of the
 * batch's operations.
 */
#ifndef ZARIS_CLIENT_STORE_H
#define ZARIS_CLIENT_STORE_H

#include "host.h"
#include "loop.h"
#include "map.h"
#include "operation.h"
#include "retry.h"
#include "url.h"

#define ZARIS_STORE_VERSION 1

/* capabilities */
#define ZARIS_CAN_PARTITION 0x01 /* keys lie in slots, slots move between nodes */
#define ZARIS_CAN_ORDER		0x02 /* pages come in bytewise key order; ranges and backward work */
#define ZARIS_CAN_SNAPSHOT	0x04 /* a page is one moment's state */
#define ZARIS_CAN_ATOMIC	0x08 /* several keys in one transaction */
#define ZARIS_CAN_EXPIRE	0x10
#define ZARIS_CAN_COUNT		0x20 /* versions are counters */
#define ZARIS_CAN_RECORDS	0x40 /* a page carries the records, not only the keys */
#define ZARIS_CAN_LOCK		0x80 /* flushing writes wants the host's writer lock (name: the url's) */

typedef struct ZarisClient ZarisClient;
typedef struct ZarisStore  ZarisStore; /* the driver's own */

/* What a key is when a page names it; with ZARIS_CAN_RECORDS also its contents. */
typedef struct ZarisRecord
{
	ZarisBytes	key;
	ZarisBytes	value;	/* string */
	ZarisField *fields; /* hash */
	int			n_fields;
	int64_t		version;
	bool		has_version;
	int64_t		expiry_ms;
} ZarisRecord;

/* SCAN_PAGE. Lives in the batch's arena or is the caller's until the operation is done. */
typedef struct ZarisPageRequest
{
	ZarisBytes cursor; /* nil = from the start; else as the page before returned it */
	ZarisBytes prefix; /* literal bytes each key begins with; nil or empty = all */
	ZarisBytes low,
		high;					/* CAN_ORDER: low <= key < high; nil = open */
	bool			  backward; /* CAN_ORDER */
	int				  count;	/* keys to look at, a hint */
	ZarisRecordKind	  record;	/* keys of other kinds are left out */
	int				  want;		/* CAN_RECORDS: ZARIS_WANT_* */
	const ZarisBytes *fields;	/* CAN_RECORDS, hash: which; none = all */
	int				  n_fields;
} ZarisPageRequest;

/* LIST_SLOTS: every key of each listed slot that lies on the node, whoever owns the slot. */
typedef struct ZarisSlotRequest
{
	const uint16_t *slots;
	int				n_slots;
	int				limit;	/* a slot with this many keys or more is reported in .too_large */
	ZarisRecordKind record; /* keys of other kinds are left out */
} ZarisSlotRequest;

/* An open slot: its keys are on their way. */
typedef struct ZarisOpenSlot
{
	uint16_t slot;
	bool	 importing;	  /* else migrating away */
	char	 peer_id[48]; /* the other node, as the store names it */
} ZarisOpenSlot;

typedef struct ZarisNodeState
{
	uint64_t	   epoch; /* changes whenever the node gains a slot */
	bool		   primary;
	char		   node_id[48];
	uint8_t		   owned[ZARIS_MAX_SLOTS / 8]; /* bit = the node itself says that it owns the slot */
	int			   n_open;
	ZarisOpenSlot *open;
	int			   n_peers; /* every node it knows, to find peer_id's address */
	struct ZarisPeer
	{
		char		 id[48];
		ZarisAddress address;
	} * peers;
} ZarisNodeState;

typedef struct ZarisKeyPage
{
	int				n;
	ZarisRecord	   *records; /* keys only without CAN_RECORDS */
	ZarisBytes		cursor;	 /* SCAN_PAGE: nil = this was the last page. An empty page is not the end. */
	ZarisNodeState *before,	 /* LIST_SLOTS */
		*after;
	uint16_t *too_large; /* LIST_SLOTS: slots not listed because they reach the limit */
	int		  n_too_large;
} ZarisKeyPage;

/* How one attempt ended. */
typedef struct ZarisAnswer
{
	ZarisStatus		  status;
	ZarisOutcome	  outcome;
	ZarisRedirectKind redirect;
	int64_t			  slot;	  /* of a redirect, as the wire said, in bounds */
	ZarisAddress	  target; /* of a redirect */
	const char		 *text;	  /* the store's own words, raw; need not be NUL-terminated; may be NULL */
	size_t			  text_len;
} ZarisAnswer;

/* The client's ear. Called with the client that open() was given. */
typedef struct ZarisStoreEvents
{
	/* exactly once for each submit, unless the operation was detached before */
	void (*answered)(ZarisClient *client, ZarisOperation *operation, const ZarisAnswer *answer);

	/* exactly once for each fetch_map; topology is NULL unless status is Ok and lies valid during the call only */
	void (*map_fetched)(ZarisClient *client, ZarisStatus status, const ZarisTopology *topology, const char *text);
} ZarisStoreEvents;

typedef struct ZarisStoreConfig
{
	const ZarisUrl		   *url;				/* valid during open() only: copy */
	const char			   *user;				/* NULL = none; likewise copied */
	const char			   *password;			/* NULL = none; likewise */
	const char			   *client_name;		/* for CLIENT SETNAME and the like, printable ASCII without spaces; likewise */
	const char			   *directory;			/* embedded stores: absolute path of their home; likewise */
	uint64_t				connect_timeout_us; /* to connect and log in, and for a map fetch as a whole */
	const ZarisHost		   *host;
	ZarisLoop			   *loop;
	ZarisClient			   *client;
	const ZarisStoreEvents *events;
} ZarisStoreConfig;

typedef struct ZarisStoreDriver
{
	int			   version; /* ZARIS_STORE_VERSION */
	const char	  *name;	/* for messages */
	unsigned	   capabilities;
	ZarisUrlScheme scheme;

	ZarisStatus (*open)(const ZarisStoreConfig *config, ZarisStore **store, const char **problem);
	void (*close)(ZarisStore *store);

	/* Ask one node for the map. At most one at a time. Uses a connection of its own. */
	void (*fetch_map)(ZarisStore *store, const ZarisAddress *from);

	/* The slot of a key: 0 where nothing is partitioned. Pure. */
	int (*slot)(const char *key, size_t len);

	/*
	 * One attempt at a node. id is the map's; connections are kept by it. asking: announce the command as one
	 * that follows an ASK.
	 */
	void (*submit)(ZarisStore *store, int id, const ZarisNode *node, ZarisOperation *operation, bool asking);
	void (*flush)(ZarisStore *store);

	/*
	 * Forget the batch's operations. broken: an error ends the batch, so connections with unanswered requests of it are
	 * closed (I10); else their replies are counted off and dropped.
	 */
	void (*detach)(ZarisStore *store, struct ZarisBatch *batch, bool broken);

	/*
	 * Close the connection to this node.  What is not answered ends as TransportError: in doubt, or NotSent where not
	 * every byte of it had left.  The answers may come out of this call.
	 */
	void (*disconnect)(ZarisStore *store, int id);

	/*
	 * Remove an embedded store and its files, or NULL. NotFound: there is none; Unavailable: somebody has it open.
	 * *problem: a sentence that holds until the next call.
	 */
	ZarisStatus (*drop)(const char *directory, const char *name, const char **problem);

	/* Open connections, for zaris_connections: the callback is called once for each. */
	int (*connections)(ZarisStore *store);
} ZarisStoreDriver;

/* All drivers that are linked in, NULL at the end. Defined in src/stores/drivers.c, so that nothing here names one. */
extern const ZarisStoreDriver *const zaris_store_drivers[];

/* The driver for a scheme, or NULL. */
extern const ZarisStoreDriver *zaris_store_driver(ZarisUrlScheme scheme);

#endif /* ZARIS_CLIENT_STORE_H */
