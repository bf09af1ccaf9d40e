/*
 * compose.c
 *	  Commands as bytes: see compose.h.
 */
#include <stdlib.h>
#include <string.h>

#include "stores/resp/compose.h"

#define MIN_OUT	   4096
#define KEEP_OUT   ((size_t) 1024 * 1024)
#define MAX_DIGITS 24

/* Room for len more bytes, or NULL. */
static char *
out_room(ZarisOut *out, size_t len)
{
	if (len > out->size - out->len)
	{
		size_t size = out->size > 0 ? out->size : MIN_OUT;
		char  *data;

		while (size < out->len + len)
			size *= 2;
		data = realloc(out->data, size);
		if (data == NULL)
		{
			out->failed = true;
			return NULL;
		}
		out->data = data;
		out->size = size;
	}
	return out->data + out->len;
}

/* The digits of a number, without NUL; their count. */
static size_t
put_digits(char *to, uint64_t number)
{
	char   digits[MAX_DIGITS];
	size_t n = 0;

	do
		digits[n++] = (char) ('0' + number % 10);
	while ((number /= 10) > 0);
	for (size_t i = 0; i < n; i++)
		to[i] = digits[n - 1 - i];
	return n;
}

/* "*3\r\n" or "$3\r\n" at to; its length */
static size_t
put_header(char *to, char type, uint64_t number)
{
	size_t n = 1;

	to[0] = type;
	n += put_digits(to + 1, number);
	to[n++] = '\r';
	to[n++] = '\n';
	return n;
}

void
zaris_out_begin(ZarisOut *out, size_t n_args)
{
	char *to = out_room(out, MAX_DIGITS);

	if (to != NULL)
		out->len += put_header(to, '*', n_args);
}

void
zaris_out_arg(ZarisOut *out, const char *data, size_t len)
{
	char  *to = out_room(out, MAX_DIGITS + len + 2);
	size_t n;

	if (to == NULL)
		return;
	n = put_header(to, '$', len);
	if (len > 0)
		memcpy(to + n, data, len);
	n += len;
	to[n++] = '\r';
	to[n++] = '\n';
	out->len += n;
}

void
zaris_out_bytes(ZarisOut *out, ZarisBytes bytes)
{
	zaris_out_arg(out, bytes.data, bytes.data != NULL ? bytes.len : 0);
}

void
zaris_out_text(ZarisOut *out, const char *text)
{
	zaris_out_arg(out, text, strlen(text));
}

void
zaris_out_integer(ZarisOut *out, int64_t number)
{
	char   text[MAX_DIGITS + 1];
	size_t n = 0;

	if (number < 0)
		text[n++] = '-';
	n += put_digits(text + n, number < 0 ? 0 - (uint64_t) number : (uint64_t) number);
	zaris_out_arg(out, text, n);
}

void
zaris_out_clear(ZarisOut *out)
{
	out->len = 0;
	out->failed = false;
	if (out->size > KEEP_OUT)
		zaris_out_free(out);
}

void
zaris_out_free(ZarisOut *out)
{
	free(out->data);
	*out = (ZarisOut){0};
}
