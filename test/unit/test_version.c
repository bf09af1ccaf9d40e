/*
 * test_version.c
 *	  Content versions against values made with other tools (sha1sum).
 */
#include "client/version.h"

#include <stdlib.h>

#include "test.h"

static int64_t
of_string(const char *value, size_t len)
{
	int64_t version = 0;

	CHECK(zaris_version_string(value, len, &version));
	return version;
}

static ZarisField
field(const char *name, const char *value)
{
	ZarisField made = {{name, strlen(name)}, {value, value == NULL ? 0 : strlen(value)}};

	return made;
}

static int64_t
of_fields(const ZarisField *fields, int n)
{
	int64_t version = 0;

	CHECK(zaris_version_hash(fields, n, &version));
	return version;
}

TEST(strings)
{
	/* printf '' | sha1sum: da39a3ee5e6b4b0d ..., 'abc': a9993e364706816a ..., 'a': 86f7e437faa5a7fc ... */
	CHECK_INT((int64_t) UINT64_C(0xda39a3ee5e6b4b0d), of_string("", 0));
	CHECK_INT((int64_t) UINT64_C(0xda39a3ee5e6b4b0d), of_string(NULL, 0));
	CHECK_INT((int64_t) UINT64_C(0xa9993e364706816a), of_string("abc", 3));
	CHECK_INT((int64_t) UINT64_C(0x86f7e437faa5a7fc), of_string("a", 1));
	CHECK(of_string("abc", 3) < 0); /* signed: the first bit is a bit like others */

	/* '123': 40bd001563085fc3 ...: a positive one */
	CHECK_INT(INT64_C(0x40bd001563085fc3), of_string("123", 3));

	/* NUL is data: printf 'a\0b' | sha1sum = 4a3dec2d1f8245280855c42db0ee4239f917fdb8 */
	CHECK_INT(INT64_C(0x4a3dec2d1f824528), of_string("a\0b", 3));
}

TEST(long_values)
{
	char *value = malloc(1000000);

	/* a million times 'a': 34aa973cd4c4daa4 f61e ... (FIPS 180) */
	memset(value, 'a', 1000000);
	CHECK_INT(INT64_C(0x34aa973cd4c4daa4), of_string(value, 1000000));
	free(value);
}

TEST(hashes)
{
	ZarisField one[] = {field("f", "v")};
	ZarisField two[] = {field("a", "1"), field("b", "2")};
	ZarisField turned[] = {field("b", "2"), field("a", "1")};
	ZarisField with_nil[] = {field("b", "2"), field("gone", NULL), field("a", "1")};
	ZarisField shifted[] = {field("ab", "c")};
	ZarisField unshifted[] = {field("a", "bc")};
	ZarisField empty[] = {field("", "")};

	CHECK_INT(0, of_fields(NULL, 0));

	/* printf '1:fv' | sha1sum */
	CHECK_INT(of_string("1:fv", 4), of_fields(one, 1));
	CHECK_INT(of_string("0:", 2), of_fields(empty, 1));

	/* the order does not matter, nil fields are not there */
	CHECK_INT(of_fields(two, 2), of_fields(turned, 2));
	CHECK_INT(of_fields(two, 2), of_fields(with_nil, 3));
	CHECK(of_fields(shifted, 1) != of_fields(unshifted, 1));
}

/* The halves are summed apart: a carry of the low one must not reach the high one. */
TEST(halves_do_not_carry)
{
	ZarisField fields[64];
	char	   names[64][16];
	uint32_t   high = 0;
	uint32_t   low = 0;

	for (int i = 0; i < 64; i++)
	{
		char	 text[32];
		uint64_t bits;

		snprintf(names[i], sizeof(names[i]), "n%d", i);
		fields[i] = field(names[i], "v");
		snprintf(text, sizeof(text), "%zu:%sv", strlen(names[i]), names[i]);
		bits = (uint64_t) of_string(text, strlen(text));
		high += (uint32_t) (bits >> 32);
		low += (uint32_t) bits;
		CHECK_INT((int64_t) (((uint64_t) high << 32) | low), of_fields(fields, i + 1));
	}
}

int
main(void)
{
	RUN(strings);
	RUN(long_values);
	RUN(hashes);
	RUN(halves_do_not_carry);
	return test_end();
}
