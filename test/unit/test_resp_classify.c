/*
 * test_resp_classify.c
 *	  Error replies: the whole table, what servers really say, redirects with every kind of address.
 */
#include "stores/resp/classify.h"

#include "test.h"

#define RETIRE	 ZARIS_ERROR_RETIRE
#define CLOSE	 ZARIS_ERROR_CLOSE
#define EVERYONE ZARIS_ERROR_EVERYONE

typedef struct Case
{
	const char *text;
	ZarisStatus status;
	unsigned	flags;
} Case;

/* One line for each rule at least: the_table_walked_whole() sees to it. */
static const Case cases[] = {
	{"MOVED 3999 127.0.0.1:6381", ZARIS_MOVED, ZARIS_ERROR_REDIRECT},
	{"MOVED", ZARIS_MOVED, ZARIS_ERROR_REDIRECT},
	{"ASK 3999 127.0.0.1:6381", ZARIS_OWNERSHIP_CHANGING, ZARIS_ERROR_REDIRECT},
	{"OWNERSHIPCHANGING segment 7 is being handed over", ZARIS_OWNERSHIP_CHANGING, 0},
	{"OWNERSHIPCHANGING", ZARIS_OWNERSHIP_CHANGING, 0},
	{"TRYAGAIN Multiple keys request during rehashing of slot", ZARIS_MIGRATING, 0},
	{"MIGRATING", ZARIS_MIGRATING, 0},
	{"READONLY You can't write against a read only replica.", ZARIS_REPLICA_WRITE_REJECTED, RETIRE},
	{"REPLICAWRITEREJECTED not the owner", ZARIS_REPLICA_WRITE_REJECTED, RETIRE},
	{"CLUSTERDOWN Hash slot not served", ZARIS_UNAVAILABLE, 0},
	{"CLUSTERDOWN The cluster is down", ZARIS_UNAVAILABLE, 0},
	{"CLUSTERDOWN The cluster is down and only accepts read commands", ZARIS_UNAVAILABLE, 0},
	{"LOADING Redis is loading the dataset in memory", ZARIS_UNAVAILABLE, 0},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ZARIS_UNAVAILABLE, 0},
	{"NOREPLICAS Not enough good replicas to write.", ZARIS_UNAVAILABLE, 0},
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", ZARIS_UNAVAILABLE, 0},
	{"UNKILLABLE Sorry the script already executed write commands", ZARIS_UNAVAILABLE, 0},
	{"UNAVAILABLE no owner can be reached", ZARIS_UNAVAILABLE, 0},
	{"ERR Error running script (call to f_1): @user_script:1: Script killed by user with SCRIPT KILL...", ZARIS_UNAVAILABLE, 0},
	{"ERR Script killed by user with SCRIPT KILL. script: 0f, on @user_script:1.", ZARIS_UNAVAILABLE, 0},
	{"ERR max number of clients reached", ZARIS_TOO_MANY_CLIENTS, CLOSE | EVERYONE},
	{"ERR max number of clients + cluster connections reached", ZARIS_TOO_MANY_CLIENTS, CLOSE | EVERYONE},
	{"CONFLICT version is 8", ZARIS_CONFLICT, 0},
	{"WRONGTYPE Operation against a key holding the wrong kind of value", ZARIS_WRONG_TYPE, 0},
	{"NOAUTH Authentication required.", ZARIS_UNAUTHENTICATED, ZARIS_ERROR_NO_LOGIN},
	{"WRONGPASS invalid username-password pair or user is disabled.", ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR invalid password", ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
	 ZARIS_BAD_CREDENTIALS, CLOSE},
	{"ERR Client sent AUTH, but no password is set", ZARIS_BAD_CREDENTIALS, CLOSE},
	{"NOPERM this user has no permissions to run the 'cluster|shards' command", ZARIS_PERMISSION_DENIED, 0},
	{"DENIED Redis is running in protected mode because protected mode is enabled", ZARIS_PERMISSION_DENIED, CLOSE | EVERYONE},
	{"OOM command not allowed when used memory > 'maxmemory'.", ZARIS_OUT_OF_MEMORY, 0},
	{"MISCONF Redis is configured to save RDB snapshots", ZARIS_OUT_OF_STORAGE, 0},
	{"ERR string exceeds maximum allowed size (proto-max-bulk-len)", ZARIS_TOO_LARGE, 0},
	{"ERR Protocol error: invalid bulk length", ZARIS_TOO_LARGE, CLOSE},
	{"ERR Protocol error: invalid multibulk length", ZARIS_TOO_LARGE, CLOSE},
	{"ERR Protocol error: expected '$', got ' '", ZARIS_PROTOCOL_ERROR, CLOSE},
	{"NOSCRIPT No matching script. Please use EVAL.", ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_SCRIPT},
	{"CROSSSLOT Keys in request don't hash to the same slot", ZARIS_INVALID_REQUEST, 0},
	{"EXECABORT Transaction discarded because of previous errors.", ZARIS_INVALID_REQUEST, 0},
	{"ERR unknown command 'CLUSTER', with args beginning with: 'SHARDS' ", ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_CLUSTER},
	{"ERR unknown subcommand 'SHARDS'. Try CLUSTER HELP.", ZARIS_INVALID_REQUEST, ZARIS_ERROR_OLDER},
	{"ERR Unknown subcommand or wrong number of arguments for 'SHARDS'. Try CLUSTER HELP.", ZARIS_INVALID_REQUEST,
	 ZARIS_ERROR_OLDER},
	{"ERR This instance has cluster support disabled", ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_CLUSTER},
	{"ERR wrong number of arguments for 'get' command", ZARIS_INVALID_REQUEST, 0},
	{"ERR syntax error", ZARIS_INVALID_REQUEST, 0},
	{"ERR", ZARIS_INVALID_REQUEST, 0},

	/* none of the table */
	{"", ZARIS_INVALID_REQUEST, 0},
	{"WHATEVER it is", ZARIS_INVALID_REQUEST, 0},

	/* words count whole */
	{"BUSYKEY Target key name already exists.", ZARIS_INVALID_REQUEST, 0},
	{"BUSYGROUP Consumer Group name already exists", ZARIS_INVALID_REQUEST, 0},
	{"MOVEDX 1 a:1", ZARIS_INVALID_REQUEST, 0},
	{"ASKING 1 a:1", ZARIS_INVALID_REQUEST, 0},
	{"moved 1 a:1", ZARIS_INVALID_REQUEST, 0},

	/* inside a script: before 7.0, and since */
	{"ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -READONLY You can't write against a read only replica.",
	 ZARIS_REPLICA_WRITE_REJECTED, RETIRE},
	{"READONLY You can't write against a read only replica. script: 0f, on @user_script:6.", ZARIS_REPLICA_WRITE_REJECTED, RETIRE},
	{"ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.",
	 ZARIS_OUT_OF_MEMORY, 0},
	{"ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -MISCONF Redis is configured", ZARIS_OUT_OF_STORAGE, 0},
	{"ERR Error running script (call to f_ab): @user_script:7: -CLUSTERDOWN The cluster is down", ZARIS_UNAVAILABLE, 0},
	{"ERR Error running script (call to f_ab): @user_script:7: -ERR something", ZARIS_INVALID_REQUEST, 0},
	{"ERR user_script:1: Script attempted to access nonexistent global variable 'x'", ZARIS_INVALID_REQUEST, 0},

	/* what a client said is echoed: it must not pass for the server's words */
	{"ERR unknown command 'FOO', with args beginning with: 'a' ' -READONLY ' ", ZARIS_INVALID_REQUEST, ZARIS_ERROR_NO_CLUSTER},
};

#define N_CASES (sizeof(cases) / sizeof(cases[0]))

TEST(what_servers_say)
{
	for (size_t i = 0; i < N_CASES; i++)
	{
		const ZarisErrorRule *rule = zaris_classify(cases[i].text, strlen(cases[i].text));

		CHECK_INT(cases[i].status, rule->status);
		CHECK_INT(cases[i].flags, rule->flags);
		if (rule->status != cases[i].status || rule->flags != cases[i].flags)
			printf("# %s\n", cases[i].text);
	}
}

TEST(the_table_walked_whole)
{
	for (const ZarisErrorRule *rule = zaris_error_rules;; rule++)
	{
		bool used = false;

		for (size_t i = 0; i < N_CASES; i++)
			used |= zaris_classify(cases[i].text, strlen(cases[i].text)) == rule;
		CHECK(used);
		if (!used)
			printf("# no case: %s\n", rule->begins);
		CHECK(rule->status != ZARIS_OK && rule->status != ZARIS_NOT_FOUND);
		if (rule->begins == NULL)
			break;
	}
}

/* The text need not end with NUL, and may be cut anywhere. */
TEST(prefixes)
{
	for (size_t i = 0; i < N_CASES; i++)
	{
		for (size_t len = 0; len <= strlen(cases[i].text); len++)
		{
			char		 cut[256];
			ZarisAddress origin = {"origin", 7000};
			ZarisAnswer	 answer;

			memset(cut, 'Z', sizeof(cut));
			memcpy(cut, cases[i].text, len);
			zaris_classify_answer(cut, len, &origin, &answer);
			CHECK(answer.status < ZARIS_STATUS_COUNT);
		}
	}
}

/* Only what ran may count as applied. */
TEST(outcomes)
{
	ZarisAddress origin = {"origin", 7000};

	for (size_t i = 0; i < N_CASES; i++)
	{
		ZarisAnswer answer;

		zaris_classify_answer(cases[i].text, strlen(cases[i].text), &origin, &answer);
		CHECK_INT(answer.status == ZARIS_CONFLICT ? ZARIS_OUTCOME_APPLIED : ZARIS_OUTCOME_REJECTED, answer.outcome);
		CHECK(answer.text == cases[i].text);
		CHECK_INT(strlen(cases[i].text), answer.text_len);
	}
}

/* redirects */

#define NOT_SAID (-1)

typedef struct Redirect
{
	const char *text; /* behind "MOVED " */
	const char *host; /* NULL: no target that could be dialled */
	int			port;
	int			slot; /* NOT_SAID: it makes no sense at all */
} Redirect;

static const Redirect redirects[] = {
	{"0 127.0.0.1:1", "127.0.0.1", 1, 0},
	{"16383 127.0.0.1:65535", "127.0.0.1", 65535, 16383},
	{"12182 :27003", "origin", 27003, 12182},
	{"12182 ?:27003", NULL, 0, 12182},
	{"12182 ::1:27003", "::1", 27003, 12182},
	{"12182 2001:db8::5:27003", "2001:db8::5", 27003, 12182},
	{"12182 ::ffff:10.0.0.1:27003", "::ffff:10.0.0.1", 27003, 12182},
	{"12182 fe80::1%eth0:27003", "fe80::1%eth0", 27003, 12182},
	{"12182 node-3.example.com:27003", "node-3.example.com", 27003, 12182},
	{"12182 node_3:27003", "node_3", 27003, 12182},
	{"12182 127.0.0.1:0", "127.0.0.1", 7000, 12182},
	{"12182 :0", "origin", 7000, 12182},
	{"12182 ?:0", NULL, 0, 12182},

	{"99999 x:99999", NULL, 0, NOT_SAID},
	{"16384 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"-1 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"+1 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"2147483648 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"4294967296 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"18446744073709551616 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"1234567890123456789012345678901234567890 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"x 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"__proto__ 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"1.5 127.0.0.1:1", NULL, 0, NOT_SAID},
	{"", NULL, 0, NOT_SAID},
	{"1", NULL, 0, NOT_SAID},
	{"1 ", NULL, 0, NOT_SAID},
	{"1 h", NULL, 0, NOT_SAID},
	{"1 h:", NULL, 0, NOT_SAID},
	{"1 :", NULL, 0, NOT_SAID},
	{"1 h:65536", NULL, 0, NOT_SAID},
	{"1 h:-1", NULL, 0, NOT_SAID},
	{"1 h:99999999999999999999999999999999999999", NULL, 0, NOT_SAID},
	{"1 h:6379x", NULL, 0, NOT_SAID},
	{"1 h:6379 ", NULL, 0, NOT_SAID},
	{"1 h:6379 extra", NULL, 0, NOT_SAID},
	{"1  h:6379", NULL, 0, NOT_SAID},
	{"1 h h:6379", NULL, 0, NOT_SAID},
	{"1 h\x01:6379", NULL, 0, NOT_SAID},
	{"1 \xff:6379", NULL, 0, NOT_SAID},
	{"1 [::1]:6379", NULL, 0, NOT_SAID},
	{"1 user@h:6379", NULL, 0, NOT_SAID},
	{"1 /tmp/socket:6379", NULL, 0, NOT_SAID},
};

static void
check_redirect(const char *word, ZarisStatus status, ZarisRedirectKind kind, const Redirect *redirect)
{
	ZarisAddress origin = {"origin", 7000};
	ZarisAnswer	 answer;
	char		 text[128];
	unsigned	 flags;

	snprintf(text, sizeof(text), "%s %s", word, redirect->text);
	flags = zaris_classify_answer(text, strlen(text), &origin, &answer);
	CHECK_INT(redirect->slot, answer.slot);
	CHECK_INT(redirect->slot == NOT_SAID ? ZARIS_PROTOCOL_ERROR : status, answer.status);
	CHECK_INT(redirect->slot == NOT_SAID ? CLOSE : ZARIS_ERROR_REDIRECT, flags);
	CHECK_INT(redirect->host == NULL ? ZARIS_REDIRECT_NONE : kind, answer.redirect);
	CHECK_INT(ZARIS_OUTCOME_REJECTED, answer.outcome);
	if (redirect->host != NULL)
	{
		CHECK_TEXT(redirect->host, answer.target.host);
		CHECK_INT(redirect->port, answer.target.port);
	}
}

TEST(redirects_with_every_address)
{
	for (size_t i = 0; i < sizeof(redirects) / sizeof(redirects[0]); i++)
	{
		check_redirect("MOVED", ZARIS_MOVED, ZARIS_REDIRECT_MOVED, &redirects[i]);
		check_redirect("ASK", ZARIS_OWNERSHIP_CHANGING, ZARIS_REDIRECT_ASK, &redirects[i]);
	}
}

TEST(a_redirect_without_a_target)
{
	ZarisAddress origin = {"origin", 7000};
	ZarisAnswer	 answer;

	CHECK_INT(ZARIS_ERROR_REDIRECT, zaris_classify_answer("MOVED", 5, &origin, &answer));
	CHECK_INT(ZARIS_MOVED, answer.status);
	CHECK_INT(ZARIS_REDIRECT_NONE, answer.redirect);
}

TEST(a_host_that_is_too_long)
{
	ZarisAddress origin = {"origin", 7000};
	ZarisAnswer	 answer;
	char		 text[400] = "MOVED 1 ";
	size_t		 longest = ZARIS_HOST_LEN - 1;

	memset(text + 8, 'h', 300);
	memcpy(text + 8 + longest, ":1", 2);
	zaris_classify_answer(text, 8 + longest + 2, &origin, &answer);
	CHECK_INT(ZARIS_REDIRECT_MOVED, answer.redirect);
	CHECK_INT(longest, strlen(answer.target.host));

	text[8 + longest] = 'h';
	memcpy(text + 8 + longest + 1, ":1", 2);
	zaris_classify_answer(text, 8 + longest + 3, &origin, &answer);
	CHECK_INT(ZARIS_PROTOCOL_ERROR, answer.status);
}

TEST(a_nul_in_the_host)
{
	ZarisAddress origin = {"origin", 7000};
	ZarisAnswer	 answer;

	zaris_classify_answer("MOVED 1 h\0h:1", 13, &origin, &answer);
	CHECK_INT(ZARIS_PROTOCOL_ERROR, answer.status);
}

/* Through a unix socket only the port tells where to go. */
TEST(redirects_through_a_socket)
{
	ZarisAddress origin = {"/run/redis.sock", 0};
	ZarisAnswer	 answer;

	zaris_classify_answer("MOVED 1 10.0.0.1:7001", 21, &origin, &answer);
	CHECK_INT(ZARIS_REDIRECT_MOVED, answer.redirect);
	CHECK_TEXT("10.0.0.1", answer.target.host);
	zaris_classify_answer("MOVED 1 :7001", 13, &origin, &answer);
	CHECK_INT(ZARIS_REDIRECT_MOVED, answer.redirect);
	CHECK_TEXT("127.0.0.1", answer.target.host);
	CHECK_INT(7001, answer.target.port);
	zaris_classify_answer("MOVED 1 10.0.0.1:0", 18, &origin, &answer);
	CHECK_INT(ZARIS_MOVED, answer.status);
	CHECK_INT(ZARIS_REDIRECT_NONE, answer.redirect);
}

/* A wrapped MOVED is no redirect: who wrote it was a script. */
TEST(a_wrapped_redirect)
{
	static const char text[] = "ERR Error running script (call to f_1): @user_script:1: -MOVED 1 h:2";
	ZarisAddress	  origin = {"origin", 7000};
	ZarisAnswer		  answer;

	zaris_classify_answer(text, sizeof(text) - 1, &origin, &answer);
	CHECK_INT(ZARIS_MOVED, answer.status);
	CHECK_INT(ZARIS_REDIRECT_NONE, answer.redirect);
}

int
main(void)
{
	RUN(what_servers_say);
	RUN(the_table_walked_whole);
	RUN(prefixes);
	RUN(outcomes);
	RUN(redirects_with_every_address);
	RUN(a_redirect_without_a_target);
	RUN(a_host_that_is_too_long);
	RUN(a_nul_in_the_host);
	RUN(redirects_through_a_socket);
	RUN(a_wrapped_redirect);
	return test_end();
}
