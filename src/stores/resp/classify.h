/*
 * classify.h
 *	  Error replies -> statuses, and redirects taken apart.  Pure.
 *
 * One table, which test/unit/test_resp_classify.c walks whole.  The words are those of Redis and Valkey, and those of
 * Zaris (-OWNERSHIPCHANGING, -REPLICAWRITEREJECTED, -MIGRATING, -UNAVAILABLE, -CONFLICT), which a server that
 * follows its contract may say.
 *
 * An error reply proves that the command was not executed: errors that describe the server's state come before it
 * begins, and our scripts check everything before their first write.
 */
#ifndef ZARIS_RESP_CLASSIFY_H
#define ZARIS_RESP_CLASSIFY_H

#include "client/store.h"

/* What an error says about more than its own command. */
#define ZARIS_ERROR_RETIRE	   0x01 /* use the connection for nothing new (a demoted primary) */
#define ZARIS_ERROR_CLOSE	   0x02 /* the server is about to close it, or cannot be trusted with framing */
#define ZARIS_ERROR_EVERYONE   0x04 /* said to the connection, not to a command: it holds for all that wait on it */
#define ZARIS_ERROR_NO_LOGIN   0x08 /* authenticate, then send again */
#define ZARIS_ERROR_NO_SCRIPT  0x10 /* send the script's text */
#define ZARIS_ERROR_OLDER	   0x20 /* an older server, which does not know the subcommand */
#define ZARIS_ERROR_NO_CLUSTER 0x40 /* in reply to CLUSTER: the server is no cluster node */
#define ZARIS_ERROR_REDIRECT   0x80 /* "slot host:port" follows */

typedef struct ZarisErrorRule
{
	const char *begins;	  /* the text's first words, each whole */
	const char *contains; /* NULL, or to be found behind them */
	ZarisStatus status;
	unsigned	flags;
} ZarisErrorRule;

extern const ZarisErrorRule zaris_error_rules[]; /* the first that fits counts; ends with begins == NULL */

/* The rule for an error's text (without '-'); one that says InvalidRequest when none fits. Never NULL. */
extern const ZarisErrorRule *zaris_classify(const char *text, size_t len);

/*
 * The answer that an error reply means.  origin: who said it, for redirects that leave out host or port.  A redirect
 * whose target cannot be dialled ("?") keeps its status with ZARIS_REDIRECT_NONE; one that makes no sense is a
 * ProtocolError.  answer->text points to text.  Returns the rule's flags (CLOSE for the latter).
 */
extern unsigned zaris_classify_answer(const char *text, size_t len, const ZarisAddress *origin, ZarisAnswer *answer);

#endif /* ZARIS_RESP_CLASSIFY_H */
