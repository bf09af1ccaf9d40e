/*
 * compose.h
 *	  Commands as bytes: arrays of bulk strings, appended to a growing buffer.
 *
 *		zaris_out_begin(out, 3);  zaris_out_text(out, "SET");  zaris_out_bytes(out, key);  zaris_out_bytes(out, value);
 *
 * Running out of memory is remembered in ->failed, so that only the end of a composition is checked; the one who
 * composes puts len back to where he began then, and clears it.
 */
#ifndef ZARIS_RESP_COMPOSE_H
#define ZARIS_RESP_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/operation.h"

typedef struct ZarisOut
{
	char  *data;
	size_t len;
	size_t size;
	bool   failed;
} ZarisOut;

extern void zaris_out_begin(ZarisOut *out, size_t n_args); /* a command of so many arguments, its name included */
extern void zaris_out_arg(ZarisOut *out, const char *data, size_t len);
extern void zaris_out_bytes(ZarisOut *out, ZarisBytes bytes); /* nil is sent as empty */
extern void zaris_out_text(ZarisOut *out, const char *text);
extern void zaris_out_integer(ZarisOut *out, int64_t number); /* as a string of digits */
extern void zaris_out_clear(ZarisOut *out);					  /* empties it; a large buffer is given back */
extern void zaris_out_free(ZarisOut *out);

#endif /* ZARIS_RESP_COMPOSE_H */
