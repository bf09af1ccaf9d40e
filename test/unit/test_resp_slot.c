/*
 * test_resp_slot.c
 *	  Slots of keys: every vector of slot-vectors.txt, each seen on a real server.
 *
 * A line is a key in quotes, with \xNN for what is not printable and perhaps *N behind it, a tab, and the slot.
 */
#include "stores/resp/slot.h"

#include <stdlib.h>

#include "test.h"

static int
hex_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The key of a line; *rest is set behind its closing quote. */
static size_t
parse_key(const char *line, char *key, const char **rest)
{
	size_t len = 0;
	size_t one;
	int	   times = 1;

	line++;
	while (*line != '\'')
	{
		if (line[0] == '\\' && line[1] == 'x')
		{
			key[len++] = (char) (hex_digit(line[2]) << 4 | hex_digit(line[3]));
			line += 4;
		}
		else
			key[len++] = *line++;
	}
	line++;
	if (*line == '*')
		times = (int) strtol(line + 1, (char **) &line, 10);
	one = len;
	for (int i = 1; i < times; i++, len += one)
		memcpy(key + len, key, one);
	*rest = line;
	return len;
}

TEST(vectors)
{
	FILE	   *file = fopen("slot-vectors.txt", "r");
	static char key[100000];
	char		line[1000];
	int			n = 0;

	CHECK(file != NULL);
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		const char *rest;
		size_t		len = parse_key(line, key, &rest);

		CHECK(*rest == '\t');
		CHECK_INT(atoi(rest + 1), zaris_resp_slot(key, len));
		n++;
	}
	CHECK_INT(33, n);
	if (file != NULL)
		fclose(file);
}

TEST(a_long_tag)
{
	char key[303];

	memset(key, 'z', sizeof(key));
	key[0] = '{';
	key[301] = '}';
	CHECK_INT(10508, zaris_resp_slot(key, sizeof(key)));
}

TEST(empty_and_nil_keys)
{
	CHECK_INT(0, zaris_resp_slot(NULL, 0));
	CHECK_INT(0, zaris_resp_slot("", 0));
}

int
main(void)
{
	RUN(vectors);
	RUN(a_long_tag);
	RUN(empty_and_nil_keys);
	return test_end();
}
