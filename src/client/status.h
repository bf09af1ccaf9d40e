/*
 * status.h
 *	  The statuses that end an attempt or an operation: one list, everything else is made from it.
 *
 * Zaris' contract (docs/statuses.md) names them; DESIGN 5 gives their class.  The enum, the names, the
 * texts, the classes, the SQLSTATE table of src/backend/error.c and the test that walks them all read
 * ZARIS_STATUS_LIST.
 *
 * Classes:
 *	 DONE		the operation did what was asked
 *	 ANSWER		the store said no, with authority: never retried, never swallowed (I7)
 *	 TRANSIENT	may be tried again within both bounds
 *	 FINAL		ends the operation at once
 *
 * Refresh: what the status says about the map.  NONE nothing; REFRESH the map is stale; SUSPECT the node
 * itself is in doubt, so the refresh asks a different node.
 */
#ifndef ZARIS_CLIENT_STATUS_H
#define ZARIS_CLIENT_STATUS_H

#include <stdbool.h>

/* X(enumerator, name as users read it, class, refresh, text: a primary error message) */
#define ZARIS_STATUS_LIST(X) \
	X(OK, "Ok", DONE, NONE, "done") \
	X(NOT_FOUND, "NotFound", ANSWER, NONE, "key does not exist") \
	X(CONFLICT, "Conflict", ANSWER, NONE, "record was changed concurrently") \
	X(MOVED, "Moved", TRANSIENT, REFRESH, "node does not own the slot") \
	X(OWNERSHIP_CHANGING, "OwnershipChanging", TRANSIENT, REFRESH, "ownership of the slot is changing") \
	X(REPLICA_WRITE_REJECTED, "ReplicaWriteRejected", TRANSIENT, REFRESH, "node is a replica of the slot") \
	X(MIGRATING, "Migrating", TRANSIENT, NONE, "slot is being migrated") \
	X(UNAVAILABLE, "Unavailable", TRANSIENT, SUSPECT, "store is unavailable") \
	X(TOO_MANY_CLIENTS, "TooManyClients", TRANSIENT, NONE, "node has too many clients") \
	X(CONNECT_ERROR, "ConnectError", TRANSIENT, SUSPECT, "could not connect to node") \
	X(TRANSPORT_ERROR, "TransportError", TRANSIENT, SUSPECT, "connection to node was lost") \
	X(DEADLINE_EXCEEDED, "DeadlineExceeded", FINAL, NONE, "store did not answer in time") \
	X(CIRCUIT_OPEN, "CircuitOpen", FINAL, NONE, "circuit breaker of the node is open") \
	X(OUTCOME_UNKNOWN, "OutcomeUnknown", FINAL, NONE, "outcome of the write is unknown") \
	X(UNAUTHENTICATED, "Unauthenticated", FINAL, NONE, "store requires a login") \
	X(BAD_CREDENTIALS, "BadCredentials", FINAL, NONE, "store refused the login") \
	X(PERMISSION_DENIED, "PermissionDenied", FINAL, NONE, "store denied permission") \
	X(WRONG_TYPE, "WrongType", FINAL, NONE, "key holds a record of another kind") \
	X(OUT_OF_MEMORY, "OutOfMemory", FINAL, NONE, "store is out of memory") \
	X(OUT_OF_STORAGE, "OutOfStorage", FINAL, NONE, "store cannot persist its data") \
	X(TOO_LARGE, "TooLarge", FINAL, NONE, "record exceeds a limit of the store") \
	X(INVALID_REQUEST, "InvalidRequest", FINAL, NONE, "store refused the request") \
	X(PROTOCOL_ERROR, "ProtocolError", FINAL, NONE, "reply violates the protocol") \
	X(NO_MEMORY, "NoMemory", FINAL, NONE, "out of memory in this backend")

typedef enum ZarisStatus
{
#define ZARIS_STATUS_ENUM(id, name, class, refresh, text) ZARIS_##id,
	ZARIS_STATUS_LIST(ZARIS_STATUS_ENUM)
#undef ZARIS_STATUS_ENUM
	ZARIS_STATUS_COUNT
} ZarisStatus;

typedef enum ZarisStatusClass
{
	ZARIS_CLASS_DONE,
	ZARIS_CLASS_ANSWER,
	ZARIS_CLASS_TRANSIENT,
	ZARIS_CLASS_FINAL
} ZarisStatusClass;

typedef enum ZarisStatusRefresh
{
	ZARIS_REFRESH_NONE,
	ZARIS_REFRESH_REFRESH,
	ZARIS_REFRESH_SUSPECT
} ZarisStatusRefresh;

/* All four are total: a value outside the list reads as ProtocolError. The strings are static. */
extern const char		 *zaris_status_name(ZarisStatus status);
extern const char		 *zaris_status_text(ZarisStatus status);
extern ZarisStatusClass	  zaris_status_class(ZarisStatus status);
extern ZarisStatusRefresh zaris_status_refresh(ZarisStatus status);

#endif /* ZARIS_CLIENT_STATUS_H */
