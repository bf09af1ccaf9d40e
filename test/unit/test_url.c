/*
 * test_url.c
 *	  Connection strings: every form of the grammar, and every way to get it wrong.
 */
#include "client/url.h"

#include <stdlib.h>

#include "test.h"

static ZarisUrl url;

static bool
parse(const char *text)
{
	const char *problem = NULL;
	bool		ok = zaris_url_parse(text, &url, &problem);

	if (ok != (problem == NULL) && test_complain(__FILE__, __LINE__))
		printf("\"%s\": a result and a problem that do not fit\n", text);
	return ok;
}

static void
check_seed(int i, const char *host, int port)
{
	CHECK(i < url.n_seeds);
	CHECK_TEXT(host, url.seeds[i].host);
	CHECK_INT(port, url.seeds[i].port);
}

TEST(nodes)
{
	CHECK(parse("redis://localhost"));
	CHECK_INT(ZARIS_SCHEME_RESP, url.scheme);
	CHECK_INT(1, url.n_seeds);
	CHECK_INT(0, url.database);
	check_seed(0, "localhost", 6379);

	CHECK(parse("valkey://10.0.0.1:1,10.0.0.2,a-b.example_x.:65535/15"));
	CHECK_INT(ZARIS_SCHEME_RESP, url.scheme);
	CHECK_INT(3, url.n_seeds);
	CHECK_INT(15, url.database);
	check_seed(0, "10.0.0.1", 1);
	check_seed(1, "10.0.0.2", 6379);
	check_seed(2, "a-b.example_x.", 65535);

	CHECK(parse("rediss://h"));
	CHECK_INT(ZARIS_SCHEME_RESP_TLS, url.scheme);
	CHECK(parse("valkeys://h:7/0"));
	CHECK_INT(ZARIS_SCHEME_RESP_TLS, url.scheme);

	CHECK(parse("redis://[::1]"));
	check_seed(0, "::1", 6379);
	CHECK(parse("redis://[2001:db8::7]:7000,[fe80::1%eth0]:1/3"));
	check_seed(0, "2001:db8::7", 7000);
	check_seed(1, "fe80::1%eth0", 1);
	CHECK_INT(3, url.database);

	CHECK(parse("redis://a,a:6379,b,a")); /* said twice, kept once */
	CHECK_INT(2, url.n_seeds);
	CHECK(parse("redis://h/2147483647"));
	CHECK_INT(2147483647, url.database);
}

TEST(sockets)
{
	CHECK(parse("unix:///var/run/redis.sock"));
	CHECK_INT(ZARIS_SCHEME_RESP, url.scheme);
	CHECK_INT(1, url.n_seeds);
	check_seed(0, "/var/run/redis.sock", 0);
	CHECK(parse("unix:///s?db=4"));
	check_seed(0, "/s", 0);
	CHECK_INT(4, url.database);
}

TEST(embedded_stores)
{
	char text[256] = "zaris://inproc/";

	CHECK(parse("zaris://inproc/main"));
	CHECK_INT(ZARIS_SCHEME_INPROC, url.scheme);
	CHECK_TEXT("main", url.name);
	CHECK_INT(0, url.n_seeds);
	CHECK(parse("zaris://inproc/A_z-09"));

	memset(text + 15, 'n', 63);
	CHECK(parse(text));
	CHECK_INT(63, strlen(url.name));
	text[15 + 63] = 'n';
	CHECK(!parse(text));
}

TEST(what_is_refused)
{
	static const char *const wrong[] = {
		/* schemes */
		"",
		"redis",
		"redis:",
		"redis:/",
		"redis:/h",
		"http://h",
		"://h",
		"Redis://h",
		" redis://h",
		"redis//h",
		"redis+unix:///s",
		"localhost:6379",
		/* hosts */
		"redis://",
		"redis://,",
		"redis://a,",
		"redis://,a",
		"redis://a,,b",
		"redis:///1",
		"redis://a b",
		"redis://a\tb",
		"redis://a\n",
		"redis://a\x7f",
		"redis://h\xc3\xa4",
		"redis://a%20b",
		"redis://a*b",
		"redis://?",
		"redis://a;b",
		"redis://a\"b",
		"redis://a'b",
		"redis://a\\b",
		/* ports */
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:-1",
		"redis://h:+1",
		"redis://h:1x",
		"redis://h: 1",
		"redis://h:99999999999999999999",
		"redis://h:0x10",
		"redis://:6379",
		"redis://h:1:2",
		"redis://h:,b",
		/* IPv6 */
		"redis://::1",
		"redis://::1:6379",
		"redis://[::1",
		"redis://[]",
		"redis://[]:1",
		"redis://[::1]1",
		"redis://[::1]]",
		"redis://[::1]:",
		"redis://[localhost]",
		"redis://[::1%]",
		"redis://[%eth0]",
		"redis://[::1%a/b]",
		"redis://[1:2:3:4:5:6:7:8:9]",
		"redis://[[::1]]",
		"redis://x[::1]",
		/* databases */
		"redis://h/",
		"redis://h/x",
		"redis://h/-1",
		"redis://h/1/",
		"redis://h/1/2",
		"redis://h/1x",
		"redis://h/ 1",
		"redis://h/2147483648",
		"redis://h/99999999999999999999",
		/* what the grammar does not name */
		"redis://h?db=1",
		"redis://h/1?x=y",
		"redis://h#f",
		"redis://h/1#f",
		/* credentials */
		"redis://u:p@h",
		"redis://u@h",
		"redis://:p@h:1/2",
		"redis://h,u:p@g",
		"redis://u:p@",
		"redis://u:p@[::1]",
		"redis://u:p?q@h",
		/* sockets */
		"unix://",
		"unix:/s",
		"unix://s",
		"unix:///",
		"unix://host/s",
		"unix:///dir/",
		"unix:///s?",
		"unix:///s?db",
		"unix:///s?db=",
		"unix:///s?db=x",
		"unix:///s?db=1&x=2",
		"unix:///s?d=1",
		"unix:///s?db=-1",
		"unix:///s b",
		/* embedded */
		"zaris://",
		"zaris://inproc",
		"zaris://inproc/",
		"zaris://other/x",
		"zaris://inproc/a/b",
		"zaris://inproc/..",
		"zaris://inproc/a.b",
		"zaris://inproc/a b",
		"zaris://inproc/\xc3\xa4",
		"zaris://inproc//x",
		"zaris://inproc/x?y",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		if (parse(wrong[i]) && test_complain(__FILE__, __LINE__))
			printf("\"%s\" is taken\n", wrong[i]);
	}
}

TEST(lengths)
{
	char   text[70000];
	size_t at;

	/* a host of the most that fits, and one more */
	strcpy(text, "redis://");
	memset(text + 8, 'h', 400);
	text[8 + ZARIS_HOST_LEN - 1] = '\0';
	CHECK(parse(text));
	text[8 + ZARIS_HOST_LEN - 1] = 'h';
	text[8 + ZARIS_HOST_LEN] = '\0';
	CHECK(!parse(text));

	/* a socket's path */
	strcpy(text, "unix:///");
	memset(text + 8, 's', 400);
	text[7 + 107] = '\0';
	CHECK(parse(text));
	text[7 + 107] = 's';
	text[7 + 108] = '\0';
	CHECK(!parse(text));

	/* as many nodes as fit, and one more */
	strcpy(text, "redis://h0");
	for (int i = 1; i < ZARIS_MAX_SEEDS; i++)
		sprintf(text + strlen(text), ",h%d", i);
	CHECK(parse(text));
	CHECK_INT(ZARIS_MAX_SEEDS, url.n_seeds);
	strcat(text, ",more");
	CHECK(!parse(text));

	/* far too much of everything */
	strcpy(text, "redis://");
	for (at = 8; at + 2 < sizeof(text); at += 2)
		memcpy(text + at, "a,", 3);
	CHECK(!parse(text));
	memset(text + 8, '9', sizeof(text) - 9);
	text[sizeof(text) - 1] = '\0';
	CHECK(!parse(text));
}

/* What goes to the log of a server must not contain what people mistype. */
TEST(a_problem_says_what_is_wrong_and_nothing_else)
{
	const char *problem;

	CHECK(!zaris_url_parse("redis://user:secret@h", &url, &problem));
	CHECK(strstr(problem, "secret") == NULL && strstr(problem, "user mapping") != NULL);
	CHECK(problem[0] >= 'A' && problem[0] <= 'Z' && problem[strlen(problem) - 1] == '.');
	CHECK(!zaris_url_parse("redis://h:secret", &url, &problem));
	CHECK(strstr(problem, "secret") == NULL && strstr(problem, "65535") != NULL);
}

int
main(void)
{
	RUN(nodes);
	RUN(sockets);
	RUN(embedded_stores);
	RUN(what_is_refused);
	RUN(lengths);
	RUN(a_problem_says_what_is_wrong_and_nothing_else);
	return test_end();
}
