/*
 * classify.c
 *	  Error replies -> statuses: see classify.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem, memrchr */
#endif

#include <string.h>

#include "stores/resp/classify.h"
#include "stores/resp/reader.h"

#define RETIRE	 ZARIS_ERROR_RETIRE
#define CLOSE	 ZARIS_ERROR_CLOSE
#define EVERYONE ZARIS_ERROR_EVERYONE

const ZarisErrorRule zaris_error_rules[] = {
	/* routing */
	{"MOVED", NULL, ZARIS_MOVED, ZARIS_ERROR_REDIRECT},
	{"ASK", NULL, ZARIS_OWNERSHIP_CHANGING, ZARIS_ERROR_REDIRECT},
	{"OWNERSHIPCHANGING", NULL, ZARIS_OWNERSHIP_CHANGING, 0},
	{"TRYAGAIN", NULL, ZARIS_MIGRATING, 0},
	{"MIGRATING", NULL, ZARIS_MIGRATING, 0},

	/* A demoted primary may hide behind a name or a proxy: a new connection may lead to the present one. */
	{"READONLY", NULL, ZARIS_REPLICA_WRITE_REJECTED, RETIRE},
	{"REPLICAWRITEREJECTED", NULL, ZARIS_REPLICA_WRITE_REJECTED, RETIRE},

	/* not now */
	{"CLUSTERDOWN", NULL, ZARIS_UNAVAILABLE, 0},
	{"LOADING", NULL, ZARIS_UNAVAILABLE, 0},
	{"MASTERDOWN", NULL, ZARIS_UNAVAILABLE, 0},
	{"NOREPLICAS", NULL, ZARIS_UNAVAILABLE, 0},
	{"BUSY", NULL, ZARIS_UNAVAILABLE, 0},
	{"UNKILLABLE", NULL, ZARIS_UNAVAILABLE, 0},
	{"UNAVAILABLE", NULL, ZARIS_UNAVAILABLE, 0},
	{"ERR", "Script killed by user", ZARIS_UNAVAILABLE, 0}, /* only one that had not written can be */
	{"ERR max number of clients", NULL, ZARIS_TOO_MANY_CLIENTS, CLOSE | EVERYONE},

	/* answers */
	{"CONFLICT", NULL, ZARIS_CONFLICT, 0},
	{"WRONGTYPE", NULL, ZARIS_WRONG_TYPE, 0},

	/* who are you */
	{"NOAUTH", NULL, ZARIS_UNAUTHENTICATED, ZARIS_ERROR_NO_LOGIN},
	{"WRONGPASS", NULL, ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR invalid password", NULL, ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR AUTH", "without any password configured", ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR Client sent AUTH, but no password is set", NULL, ZARIS_BAD_CREDENTIALS, CLOSE},
	{"NOPERM", NULL, ZARIS_PERMISSION_DENIED, 0},
	{"DENIED", NULL, ZARIS_PERMISSION_DENIED, CLOSE | EVERYONE}, /* protected mode */

	/* limits */
	{"OOM", NULL, ZARIS_OUT_OF_MEMORY, 0},
	{"MISCONF", NULL, ZARIS_OUT_OF_STORAGE, 0},
	{"ERR string exceeds maximum allowed size", NULL, ZARIS_TOO_LARGE, 0},
	{"ERR Protocol error", "invalid bulk length", ZARIS_TOO_LARGE, CLOSE},
	{"ERR Protocol error", "invalid multibulk length", ZARIS_TOO_LARGE, CLOSE},
	{"ERR Protocol error", NULL, ZARIS_PROTOCOL_ERROR, CLOSE},

	/* what was asked */
	{"NOSCRIPT", NULL, ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_SCRIPT},
	{"CROSSSLOT", NULL, ZARIS_INVALID_REQUEST, 0},
	{"EXECABORT", NULL, ZARIS_INVALID_REQUEST, 0},
	{"ERR unknown command", NULL, ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_CLUSTER},
	{"ERR unknown subcommand", NULL, ZARIS_INVALID_REQUEST, ZARIS_ERROR_OLDER},
	{"ERR Unknown subcommand", NULL, ZARIS_INVALID_REQUEST, ZARIS_ERROR_OLDER},
	{"ERR This instance has cluster support disabled", NULL, ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_CLUSTER},
	{"ERR", NULL, ZARIS_INVALID_REQUEST, 0},
	{NULL, NULL, ZARIS_INVALID_REQUEST, 0}};

static const char *
find_text(const char *text, size_t len, const char *wanted)
{
	return memmem(text, len, wanted, strlen(wanted));
}

/* "ERR max" begins "ERR max number" but not "ERR maximum": words count whole. */
static bool
begins_with(const char *text, size_t len, const char *words)
{
	size_t n = strlen(words);

	if (len < n || memcmp(text, words, n) != 0)
		return false;
	return len == n || !((text[n] >= 'a' && text[n] <= 'z') || (text[n] >= 'A' && text[n] <= 'Z'));
}

static const ZarisErrorRule *
find_rule(const char *text, size_t len)
{
	const ZarisErrorRule *rule = zaris_error_rules;

	for (; rule->begins != NULL; rule++)
		if (begins_with(text, len, rule->begins) &&
			(rule->contains == NULL || find_text(text, len, rule->contains) != NULL))
			break;
	return rule;
}

/*
 * Before 7.0 a server wraps what a command in a script said: "ERR Error running script (call to f_…):
 * @user_script:7: -READONLY You can't write …".  What counts is the inner word.
 */
static const ZarisErrorRule *
find_wrapped(const char *text, size_t len)
{
	if (find_text(text, len, "user_script") == NULL && find_text(text, len, "Error running script") == NULL)
		return NULL;
	for (size_t i = 1; i + 1 < len; i++)
	{
		const ZarisErrorRule *rule;

		if (text[i] != '-' || text[i - 1] != ' ' || text[i + 1] < 'A' || text[i + 1] > 'Z')
			continue;
		rule = find_rule(text + i + 1, len - i - 1);
		if (rule->begins != NULL && !begins_with(text + i + 1, len - i - 1, "ERR"))
			return rule;
	}
	return NULL;
}

const ZarisErrorRule *
zaris_classify(const char *text, size_t len)
{
	if (begins_with(text, len, "ERR"))
	{
		const ZarisErrorRule *wrapped = find_wrapped(text, len);

		if (wrapped != NULL)
			return wrapped;
	}
	return find_rule(text, len);
}

/* Printable, and nothing that could not stand in a host's name or address. */
static bool
is_host(const char *host, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (host[i] <= ' ' || host[i] > '~' || strchr("[]/@,\"\\", host[i]) != NULL)
			return false;
	return len < ZARIS_HOST_LEN;
}

/*
 * "slot host:port" behind the word.  The host may be empty (the node that spoke), "?" (unknown), a name, or an address,
 * IPv6 without brackets, so the port stands behind the *last* colon.  Port 0 is what some servers say for "the one
 * that you use".
 */
static bool
parse_redirect(const char *text, size_t len, const ZarisAddress *origin, ZarisAnswer *answer)
{
	const char *space = memchr(text, ' ', len);
	const char *colon;
	const char *host;
	size_t		host_len;
	uint64_t	slot;
	uint64_t	port;

	if (space == NULL || !zaris_digits(text, space - text, ZARIS_MAX_SLOTS - 1, &slot))
		return false;
	host = space + 1;
	colon = memrchr(host, ':', text + len - host);
	if (colon == NULL || !zaris_digits(colon + 1, text + len - colon - 1, 65535, &port))
		return false;
	host_len = colon - host;
	if (!is_host(host, host_len))
		return false;

	answer->slot = (int64_t) slot;
	if (host_len == 1 && host[0] == '?')
		return true; /* never dialled: the refresh must tell */
	if (port == 0)
		port = origin->port;
	if (port == 0)
		return true; /* said through a unix socket: there is no port to take over */
	if (host_len == 0)
	{
		host = origin->port > 0 ? origin->host : "127.0.0.1";
		host_len = strlen(host);
	}
	if (!zaris_address_set(&answer->target, host, host_len, (int64_t) port))
		return false;
	answer->redirect = answer->status == ZARIS_MOVED ? ZARIS_REDIRECT_MOVED : ZARIS_REDIRECT_ASK;
	return true;
}

unsigned
zaris_classify_answer(const char *text, size_t len, const ZarisAddress *origin, ZarisAnswer *answer)
{
	const ZarisErrorRule *rule = zaris_classify(text, len);
	size_t				  word;

	answer->status = rule->status;
	answer->outcome = rule->status == ZARIS_CONFLICT ? ZARIS_OUTCOME_APPLIED : ZARIS_OUTCOME_REJECTED;
	answer->redirect = ZARIS_REDIRECT_NONE;
	answer->slot = -1;
	answer->text = text;
	answer->text_len = len;
	if (!(rule->flags & ZARIS_ERROR_REDIRECT) || !begins_with(text, len, rule->begins))
		return rule->flags;

	/* Zaris' own -MOVED may come without a target. */
	word = strlen(rule->begins);
	if (len == word)
		return rule->flags;
	if (text[word] == ' ' && parse_redirect(text + word + 1, len - word - 1, origin, answer))
		return rule->flags;
	answer->status = ZARIS_PROTOCOL_ERROR;
	answer->redirect = ZARIS_REDIRECT_NONE;
	answer->slot = -1;
	return ZARIS_ERROR_CLOSE;
}
