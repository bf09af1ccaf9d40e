/*
 * url.c
 *	  Takes a store's connection string apart (url.h has the grammar).
 *
 * The text comes from whoever may create a server, so everything is bounded, and no message repeats a part of it:
 * people do paste passwords into URLs.
 */
#include "client/url.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct Scheme
{
	const char	  *prefix;
	ZarisUrlScheme scheme;
	bool		   is_socket;
} Scheme;

static const Scheme schemes[] = {
	{"redis://", ZARIS_SCHEME_RESP, false},
	{"valkey://", ZARIS_SCHEME_RESP, false},
	{"rediss://", ZARIS_SCHEME_RESP_TLS, false},
	{"valkeys://", ZARIS_SCHEME_RESP_TLS, false},
	{"unix://", ZARIS_SCHEME_RESP, true},
	{"zaris://", ZARIS_SCHEME_INPROC, false},
};

static bool
fail(const char **problem, const char *sentence)
{
	*problem = sentence;
	return false;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

/* Digits only, at least one, at most `most`: -1 for anything else. */
static long
parse_number(const char *text, size_t len, long most)
{
	long number = 0;

	if (len == 0)
		return -1;
	for (size_t i = 0; i < len; i++)
	{
		if (!is_digit(text[i]))
			return -1;
		number = number * 10 + (text[i] - '0');
		if (number > most)
			return -1;
	}
	return number;
}

/* Host names and IPv4 numbers; the resolver judges the rest. */
static bool
is_host_name(const char *host, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if (!is_word(host[i]) && host[i] != '.')
			return false;
	}
	return len > 0;
}

/* What stands between brackets: an IPv6 number, perhaps with a zone (fe80::1%eth0). */
static bool
is_ipv6(const char *host, size_t len)
{
	char			number[INET6_ADDRSTRLEN];
	struct in6_addr parsed;
	const char	   *zone = memchr(host, '%', len);
	size_t			number_len = zone == NULL ? len : (size_t) (zone - host);

	if (number_len == 0 || number_len >= sizeof(number))
		return false;
	if (zone != NULL && !is_host_name(zone + 1, len - number_len - 1))
		return false;
	memcpy(number, host, number_len);
	number[number_len] = '\0';
	return inet_pton(AF_INET6, number, &parsed) == 1;
}

static bool
add_seed(ZarisUrl *url, const ZarisAddress *seed, const char **problem)
{
	for (int i = 0; i < url->n_seeds; i++)
	{
		if (zaris_address_equal(&url->seeds[i], seed))
			return true;
	}
	if (url->n_seeds >= ZARIS_MAX_SEEDS)
		return fail(problem, "The URL names more than 64 nodes.");
	url->seeds[url->n_seeds++] = *seed;
	return true;
}

/* host, host:port, [v6] or [v6]:port */
static bool
parse_seed(const char *text, size_t len, ZarisUrl *url, const char **problem)
{
	const char	*host = text;
	const char	*end; /* of the host, brackets included */
	size_t		 host_len;
	long		 port = ZARIS_DEFAULT_PORT;
	ZarisAddress seed;

	if (len > 0 && text[0] == '[')
	{
		end = memchr(text, ']', len);
		if (end == NULL)
			return fail(problem, "The bracket around an IPv6 address is not closed.");
		host = text + 1;
		host_len = end - host;
		end++;
		if (!is_ipv6(host, host_len))
			return fail(problem, "There is no valid IPv6 address between the brackets.");
	}
	else
	{
		end = memchr(text, ':', len);
		if (end == NULL)
			end = text + len;
		host_len = end - text;
		if (host_len == 0)
			return fail(problem, "A host name is missing.");
		if (memchr(end, ':', text + len - end) != NULL && memchr(end + 1, ':', text + len - end - 1) != NULL)
			return fail(problem, "An IPv6 address must stand in brackets.");
		if (!is_host_name(host, host_len))
			return fail(problem, "A host name contains a character that is not allowed.");
	}

	if (end < text + len)
	{
		if (*end != ':')
			return fail(problem, "Only a colon and a port may follow a host.");
		port = parse_number(end + 1, text + len - end - 1, 65535);
		if (port < 1)
			return fail(problem, "A port must be a number between 1 and 65535.");
	}
	if (!zaris_address_set(&seed, host, host_len, port))
		return fail(problem, "A host name is too long.");
	return add_seed(url, &seed, problem);
}

static bool
parse_database(const char *text, ZarisUrl *url, const char **problem)
{
	long number = parse_number(text, strlen(text), INT_MAX);

	if (number < 0)
		return fail(problem, "The database must be a number.");
	url->database = (int) number;
	return true;
}

static bool
parse_nodes(const char *text, ZarisUrl *url, const char **problem)
{
	size_t len = strcspn(text, "/?#");
	size_t at = 0;

	/* Before anything else: a colon in the credentials would be taken for a port. */
	if (strchr(text, '@') != NULL)
		return fail(problem, "Credentials do not belong into a URL; set the options \"user\" and \"password\" of a user mapping.");
	if (text[len] == '?' || text[len] == '#')
		return fail(problem, "The URL of a cluster has no parameters.");

	for (;;)
	{
		size_t part = 0;

		while (at + part < len && text[at + part] != ',')
			part++;
		if (!parse_seed(text + at, part, url, problem))
			return false;
		at += part;
		if (at == len)
			break;
		at++; /* the comma: another one must follow */
	}

	if (text[len] == '/')
		return parse_database(text + len + 1, url, problem);
	return true;
}

static bool
parse_socket(const char *text, ZarisUrl *url, const char **problem)
{
	size_t		  len = strcspn(text, "?");
	ZarisAddress *seed = &url->seeds[0];

	if (text[0] != '/')
		return fail(problem, "The path of a socket must be absolute: three slashes follow \"unix:\".");
	if (len < 2 || text[len - 1] == '/')
		return fail(problem, "The path of a socket must name a file.");
	if (len >= sizeof(((struct sockaddr_un *) 0)->sun_path) || len >= ZARIS_HOST_LEN)
		return fail(problem, "The path of the socket is too long.");

	memcpy(seed->host, text, len);
	seed->host[len] = '\0';
	seed->port = 0;
	url->n_seeds = 1;

	if (text[len] == '\0')
		return true;
	if (strncmp(text + len, "?db=", 4) != 0)
		return fail(problem, "The only parameter of a socket's URL is \"db\".");
	return parse_database(text + len + 4, url, problem);
}

static bool
parse_inproc(const char *text, ZarisUrl *url, const char **problem)
{
	size_t len;

	if (strncmp(text, "inproc/", 7) != 0)
		return fail(problem, "An embedded store is named by \"zaris://inproc/NAME\".");
	text += 7;
	len = strlen(text);
	if (len == 0 || len >= ZARIS_URL_NAME_LEN)
		return fail(problem, "The name of an embedded store has 1 to 63 characters.");
	for (size_t i = 0; i < len; i++)
	{
		if (!is_word(text[i]))
			return fail(problem, "The name of an embedded store consists of letters, digits, \"_\" and \"-\".");
	}
	memcpy(url->name, text, len + 1);
	return true;
}

bool
zaris_url_parse(const char *text, ZarisUrl *url, const char **problem)
{
	memset(url, 0, sizeof(*url));
	*problem = NULL;

	for (const char *c = text; *c != '\0'; c++)
	{
		if ((unsigned char) *c <= ' ' || *c == 0x7f)
			return fail(problem, "The URL contains a space or a control character.");
	}
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
	{
		size_t len = strlen(schemes[i].prefix);

		if (strncmp(text, schemes[i].prefix, len) != 0)
			continue;
		url->scheme = schemes[i].scheme;
		if (schemes[i].is_socket)
			return parse_socket(text + len, url, problem);
		if (url->scheme == ZARIS_SCHEME_INPROC)
			return parse_inproc(text + len, url, problem);
		return parse_nodes(text + len, url, problem);
	}
	return fail(problem,
				"The URL must begin with \"redis://\", \"rediss://\", \"valkey://\", \"valkeys://\", \"unix://\" or \"zaris://\".");
}
