/*
 * connection.h
 *	  One connection to one node: connect, log in, send, match replies to what was sent.
 *
 * Commands are composed into ->out and entered into a ring, in the same order; replies come in that order too (the
 * protocol has no other correlation), so the oldest entry is always the one that the next reply belongs to.
 *
 *		ring:	| sent, unanswered ...        | composed, not sent ... |
 *				head                          start >= flushed         tail
 *
 *	 CLOSED			no stream; entries may wait in the ring until the next advance() connects
 *	 CONNECTING		the addresses are tried one by one
 *	 LOGIN			AUTH is alone in flight: a server drops the reply of a failing AUTH when others are pending
 *	 SETUP			CLIENT SETNAME and SELECT are in flight
 *	 READY			advance() writes what was composed
 *	 BROKEN			a write failed; what had come in before is still read, then `ended` comes
 *
 * READY with ->drain set sends nothing more: once all that is in flight is answered it logs in again (LOGIN), or
 * opens a new stream (REOPEN: the node said READONLY, so it may be a demoted primary behind a name).
 *
 * A connection lives as long as its store; streams come and go.  Nothing here calls the client: the hooks decide what
 * an entry's end means.  No hook may free the connection.
 */
#ifndef ZARIS_RESP_CONNECTION_H
#define ZARIS_RESP_CONNECTION_H

#include "client/store.h"
#include "stores/resp/compose.h"
#include "stores/resp/reader.h"
#include "stores/resp/scripts.h"

typedef struct ZarisConnection ZarisConnection;

/* entry flags */
#define ZARIS_ENTRY_ASKING		0x01 /* each command is announced by ASKING, which has a reply of its own */
#define ZARIS_ENTRY_FULL_SCRIPT 0x02 /* send the script's text: the digest was unknown */
#define ZARIS_ENTRY_LOGGED_IN	0x04 /* sent again after NOAUTH: not once more */

/* One operation's commands, which were sent together. */
typedef struct ZarisEntry
{
	ZarisOperation *operation; /* NULL: an orphan, whose replies are counted off; or an entry of the map fetch */
	uint64_t		start;	   /* first byte and end, counted from the stream's opening, logins left out */
	uint64_t		end;
	uint32_t		expected; /* replies, those to ASKING included */
	uint32_t		seen;
	uint8_t			stage; /* commands.c: which of the operation's steps this is */
	uint8_t			flags;
} ZarisEntry;

/* What the replies to the oldest entry have said so far. Filled in by commands.c. */
typedef struct ZarisCollector
{
	ZarisAnswer answer;		/* begins as Ok, Applied */
	unsigned	flags;		/* ZARIS_ERROR_* of answer */
	bool		garbage;	/* a reply that makes no sense: answer stands, the stream is gone already */
	bool		missing;	/* the key is not there */
	bool		other_kind; /* it is, but not as the kind asked for */
	bool		unclear;	/* nothing was found, and the reply cannot tell why: look again */
	size_t		room;		/* LIST_SLOTS: records that the page has memory for */
	char		text[ZARIS_ERROR_TEXT];
} ZarisCollector;

typedef struct ZarisConnectionHooks
{
	/* A reply to the oldest entry, which is no orphan. False: it makes no sense, and the connection is to be closed. */
	bool (*replied)(ZarisConnection *connection, ZarisEntry *entry, const ZarisReply *reply);

	/* The entry has all its replies (or one that made no sense) and has left the ring. May compose, push and answer. */
	void (*finished)(ZarisConnection *connection, const ZarisEntry *entry);

	/* The entry has left the ring without its replies. Must not touch the connection; the text is ->fail_text. */
	void (*failed)(ZarisConnection *connection, const ZarisEntry *entry, ZarisStatus status, ZarisOutcome outcome);

	/* The loop's callback is over: the time to send what was composed in it. */
	void (*settled)(ZarisConnection *connection);
} ZarisConnectionHooks;

/* What all connections of a store have in common. */
typedef struct ZarisConnectionSetup
{
	ZarisLoop		   *loop;
	const ZarisAddress *seeds;
	int					n_seeds;
	const char		   *user; /* NULL = none, likewise the next two */
	const char		   *password;
	const char		   *client_name;
	int					database;
	uint64_t			connect_timeout_us;
	ZarisScripts		scripts;
} ZarisConnectionSetup;

typedef enum ZarisConnectionState
{
	ZARIS_CONNECTION_CLOSED,
	ZARIS_CONNECTION_CONNECTING,
	ZARIS_CONNECTION_LOGIN,
	ZARIS_CONNECTION_SETUP,
	ZARIS_CONNECTION_READY,
	ZARIS_CONNECTION_BROKEN
} ZarisConnectionState;

typedef enum ZarisDrain
{
	ZARIS_DRAIN_NONE,
	ZARIS_DRAIN_LOGIN,
	ZARIS_DRAIN_REOPEN
} ZarisDrain;

struct ZarisConnection
{
	const ZarisConnectionSetup *setup;
	const ZarisConnectionHooks *hooks;
	void					   *owner; /* the hooks' */
	ZarisAddress				address;
	char						ip[48];		   /* of a node whose address is a name; "" = not told */
	bool						whole_timeout; /* connect_timeout bounds everything until close, not only the login */

	ZarisConnectionState state;
	ZarisDrain			 drain;
	ZarisStream			*stream;
	ZarisTimer			*timer;
	ZarisResolved		 candidates;
	int					 candidate;						   /* the one being tried */
	uint64_t			 generation;					   /* +1 with each stream that goes */
	int					 setup_replies;					   /* SETUP: still to come */
	bool				 has_setup;						   /* this stream went through SETUP: another login does not repeat it */
	bool				 just_heard;					   /* in a callback that proves the peer to be there: the stream need not be looked at */
	bool				 knows_script[ZARIS_SCRIPT_COUNT]; /* its text was sent on this stream */

	ZarisReader reader;
	ZarisOut	out;		 /* composed, not sent */
	uint64_t	flushed;	 /* bytes of commands that were handed to the stream */
	uint64_t	login_bytes; /* bytes of logins on this stream, which lie before and between */

	ZarisEntry	  *ring;
	size_t		   ring_size; /* a power of two, or 0 */
	size_t		   ring_head;
	size_t		   ring_count;
	size_t		   n_orphans;
	ZarisCollector collector;
	char		   fail_text[ZARIS_ERROR_TEXT];

	ZarisField *scratch; /* commands.c: for taking a hash apart */
	size_t		scratch_size;

	ZarisConnection *next_dirty; /* the owner's list of those to advance */
	bool			 is_dirty;
};

extern void zaris_connection_init(ZarisConnection *connection, const ZarisConnectionSetup *setup,
								  const ZarisConnectionHooks *hooks, void *owner);
extern void zaris_connection_free(ZarisConnection *connection); /* calls no hook */

/* Whom to connect to: a change breaks off what is under way to the old address. */
extern void zaris_connection_set_address(ZarisConnection *connection, const ZarisAddress *address, const char *ip);

/*
 * Enter what was composed behind `mark` (out.len before) into the ring.  False when out of memory: then out is cut back
 * to the mark.  Only operation, expected, stage and flags of *entry count.
 */
extern bool zaris_connection_push(ZarisConnection *connection, const ZarisEntry *entry, size_t mark);

/* Do what can be done now: connect, write, go on with a drain. Never blocks (but for the names of seeds). */
extern void zaris_connection_advance(ZarisConnection *connection);

extern void zaris_connection_drain(ZarisConnection *connection, ZarisDrain drain);
extern bool zaris_connection_in_flight(const ZarisConnection *connection); /* something was sent and is unanswered */

/*
 * Close the stream; entries fail with the status, and NotSent or InDoubt by what left the process (or Rejected when
 * `rejected`).  keep_unsent: what was only composed stays, for the next stream.
 */
extern void zaris_connection_fail(ZarisConnection *connection, ZarisStatus status, bool rejected, bool keep_unsent,
								  const char *text, size_t text_len);
extern void zaris_connection_close(ZarisConnection *connection); /* the stream only; nothing may be in flight */

/*
 * Take the batch's entries out that were not sent, and turn those in flight into orphans.  Returns how many were in
 * flight.
 */
extern size_t zaris_connection_forget(ZarisConnection *connection, const struct ZarisBatch *batch);

#endif /* ZARIS_RESP_CONNECTION_H */
