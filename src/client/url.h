/*
 * url.h
 *	  The store's connection string, taken apart.  Pure; no names are resolved here.
 *
 *	  redis://host[:port][,host[:port]...][/db]		valkey:// is the same
 *	  redis+unix:///path/to/socket[?db=N] is spelt unix:///path/to/socket[?db=N]
 *	  zaris://inproc/NAME							the embedded store
 *
 * IPv6 hosts stand in brackets.  Credentials are refused in a URL (they belong to a USER MAPPING, which
 * PostgreSQL hides from others), and so is anything that the grammar above does not name.
 */
#ifndef ZARIS_CLIENT_URL_H
#define ZARIS_CLIENT_URL_H

#include <stdbool.h>

#include "map.h"

#define ZARIS_MAX_SEEDS	   64
#define ZARIS_URL_NAME_LEN 64
#define ZARIS_DEFAULT_PORT 6379

typedef enum ZarisUrlScheme
{
	ZARIS_SCHEME_RESP,	   /* redis, valkey, unix */
	ZARIS_SCHEME_RESP_TLS, /* rediss, valkeys */
	ZARIS_SCHEME_INPROC	   /* zaris */
} ZarisUrlScheme;

typedef struct ZarisUrl
{
	ZarisUrlScheme scheme;
	int			   n_seeds;
	ZarisAddress   seeds[ZARIS_MAX_SEEDS];
	int			   database;				 /* 0 when not given */
	char		   name[ZARIS_URL_NAME_LEN]; /* of an embedded store */
} ZarisUrl;

/*
 * Parse text into *url.  On false, *problem is a static sentence for DETAIL (capital letter, period) that never
 * contains a part of the text.
 */
extern bool zaris_url_parse(const char *text, ZarisUrl *url, const char **problem);

#endif /* ZARIS_CLIENT_URL_H */
