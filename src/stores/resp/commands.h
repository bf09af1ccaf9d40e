/*
 * commands.h
 *	  Operations -> commands, and replies -> results.
 *
 *		compose		appends the commands of one step of an operation to connection->out; says how many replies will come
 *		replied		takes one of them; results go into the operation, errors into connection->collector
 *		finish		after the last: settles the answer, or names the next step
 *
 * Reads may take several commands in one pipeline (GET and PEXPIRETIME), and a transient error among their replies
 * makes the whole attempt that error.  A write is never more than one executed command.  Most operations have one
 * step; the further ones are needed when a reply cannot tell why it is empty:
 *
 *		Get of hash fields: HMGET, all nil	-> TYPE		is there a hash at all?
 *		Put if absent: SET NX says nil		-> TYPE		a string (Conflict), or another kind (WrongType)?
 *		the node's state: no cluster here	-> ROLE		primary or replica?
 *		the keys of slots: CLUSTER GETKEYSINSLOT -> a TYPE for each key, then the node's state once more
 *
 * What goes out for each kind:
 *
 *		Get string		GET | TYPE (nothing is wanted of it), PEXPIRETIME
 *		Get hash		HMGET | HGETALL (all fields, or the version) | TYPE, PEXPIRETIME
 *		Put, Delete		SET NX for a string if absent, else a script (scripts.h)
 *		page			SCAN
 *		slots			CLUSTER NODES, CLUSTER GETKEYSINSLOT ...; ASKING TYPE ..., CLUSTER NODES
 *		node's state	CLUSTER NODES
 */
#ifndef ZARIS_RESP_COMMANDS_H
#define ZARIS_RESP_COMMANDS_H

#include "stores/resp/connection.h"

typedef enum ZarisStage
{
	ZARIS_STAGE_DONE = -1,
	ZARIS_STAGE_FIRST,
	ZARIS_STAGE_TYPE,
	ZARIS_STAGE_ROLE,
	ZARIS_STAGE_KINDS
} ZarisStage;

/*
 * entry->operation, ->stage and ->flags say what; ->expected is set.  Anything but Ok: nothing is to be sent, and
 * *problem may be a static text.  The caller cuts connection->out back then.
 */
extern ZarisStatus zaris_command_compose(ZarisConnection *connection, ZarisEntry *entry, const char **problem);

/* False: the reply makes no sense. */
extern bool zaris_command_replied(ZarisConnection *connection, const ZarisEntry *entry, const ZarisReply *reply);

/* DONE: connection->collector.answer is the operation's; else the step to compose next. */
extern ZarisStage zaris_command_finish(ZarisConnection *connection, const ZarisEntry *entry);

/* For commands.c and pages.c. */

/* A step being composed. */
typedef struct ZarisComposer
{
	ZarisOut *out;
	bool	  asking;
	uint32_t  replies;
} ZarisComposer;

extern void zaris_compose_command(ZarisComposer *composer, size_t n_args, const char *name); /* name included in n_args */

extern void		   zaris_collect(ZarisConnection *connection, ZarisStatus status, const char *text); /* text: static or NULL */
extern bool		   zaris_collect_error(ZarisConnection *connection, const ZarisReply *reply);		 /* true */
extern bool		   zaris_collect_type(ZarisConnection *connection, const ZarisOperation *operation, const ZarisReply *reply);
extern const char *zaris_kind_name(ZarisRecordKind kind); /* as TYPE says it */

extern ZarisStatus zaris_page_compose(const ZarisOperation *operation, ZarisEntry *entry, ZarisComposer *composer,
									  const char **problem);
extern bool		   zaris_page_replied(ZarisConnection *connection, const ZarisEntry *entry, uint32_t n, const ZarisReply *reply);
extern ZarisStage  zaris_page_finish(ZarisConnection *connection, const ZarisEntry *entry);

#endif /* ZARIS_RESP_COMMANDS_H */
