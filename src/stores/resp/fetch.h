/*
 * fetch.h
 *	  One node asked for the map: the dialogue, on a connection of its own that is opened anew each time.
 *
 *		CLUSTER SHARDS, CLUSTER INFO	in one pipeline
 *		CLUSTER SLOTS					if the server does not know SHARDS
 *		ROLE, INFO cluster				if it is no cluster node
 *
 * connect_timeout bounds all of it.  What came of it lies here until the next start; the owner looks for ->is_over
 * when told to settle, for an end may come in the middle of something else.
 */
#ifndef ZARIS_RESP_FETCH_H
#define ZARIS_RESP_FETCH_H

#include "stores/resp/connection.h"

typedef enum ZarisFetchStep
{
	ZARIS_FETCH_SHARDS,
	ZARIS_FETCH_SLOTS,
	ZARIS_FETCH_ROLE
} ZarisFetchStep;

typedef struct ZarisFetch
{
	ZarisConnection connection;
	bool			is_over; /* status, text and (if Ok) topology are to be taken */
	ZarisFetchStep	step;
	ZarisFetchStep	next; /* differs from step when there is another one to take */
	ZarisStatus		status;
	char			text[ZARIS_ERROR_TEXT]; /* why not Ok: the server's words, or ours */
	ZarisTopology  *topology;				/* allocated with the first fetch: it is large */
	uint64_t		epoch;
	void (*settle)(void *owner);
	void *owner;
} ZarisFetch;

extern void zaris_fetch_init(ZarisFetch *fetch, const ZarisConnectionSetup *setup, void (*settle)(void *owner), void *owner);
extern void zaris_fetch_start(ZarisFetch *fetch, const ZarisAddress *from, const char *ip); /* ip: of a name; "" = not known */
extern void zaris_fetch_free(ZarisFetch *fetch);

#endif /* ZARIS_RESP_FETCH_H */
