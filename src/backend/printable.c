/*
 * printable.c
 *	  Remote bytes made fit for a message (I14): a key, a node's name or a store's own words may hold anything.
 *
 * What stays is what the database's encoding calls a character and a terminal shows as one.  Control characters go,
 * and so do the invisible ones that reorder or break a line: they could make a log say what was never logged.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "backend/error.h"

/* Unicode's line separators, marks and embeddings of direction: U+200B..200F, 2028..202E, 2060..206F, FEFF. */
static bool
is_invisible(pg_wchar c)
{
	return (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

/* The length of the printable character at data, or 0. */
static int
printable_len(const char *data, size_t len, int encoding)
{
	int n;

	if (!IS_HIGHBIT_SET(*data))
		return (unsigned char) *data >= 0x20 && *data != 0x7F ? 1 : 0;

	/* Nobody knows what a high byte means in SQL_ASCII. */
	if (encoding == PG_SQL_ASCII)
		return 0;
	n = pg_encoding_verifymbchar(encoding, data, (int) Min(len, (size_t) MAX_MULTIBYTE_CHAR_LEN));
	if (n <= 0 || pg_encoding_dsplen(encoding, data) < 0)
		return 0;
	if (encoding == PG_UTF8 && is_invisible(utf8_to_unicode((const unsigned char *) data)))
		return 0;
	return n;
}

char *
zaris_printable(const char *data, size_t len, int most)
{
	int			   encoding = GetDatabaseEncoding();
	const char	  *end = data + len;
	StringInfoData text;

	initStringInfo(&text);
	for (int shown = 0; data < end; shown++)
	{
		int n = printable_len(data, end - data, encoding);

		if (shown >= most)
		{
			appendStringInfoString(&text, "...");
			break;
		}
		if (n > 0)
			appendBinaryStringInfo(&text, data, n);
		else
			appendStringInfo(&text, "\\x%02x", (unsigned char) *data);
		data += Max(n, 1);
	}
	return text.data;
}
