/*
 * test_lmdb_record.c
 *	  The record format: what is written is read, what is damaged is noticed, and nothing is read beyond its end.
 */
#include "lmdb_support.h"

#define MOST_FIELDS 12

/* A copy with no byte behind its end, so that the sanitizer sees the first step too far. */
static ZarisBytes
exact_copy(const char *data, size_t len)
{
	char *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, data, len);
	return (ZarisBytes){copy, len};
}

static ZarisBytes
make_record(ZarisRecordKind kind, ZarisBytes body, int64_t version, int64_t expiry_ms)
{
	ZarisLmdbRecord record = {kind, version, expiry_ms, {0}, body};
	char		   *room = malloc(ZARIS_LMDB_HEADER + body.len);

	for (int i = 0; i < ZARIS_LMDB_OPERATION_ID; i++)
		record.operation_id[i] = (unsigned char) (i * 17);
	zaris_lmdb_record_header(&record, room);
	if (body.len > 0)
		memcpy(room + ZARIS_LMDB_HEADER, body.data, body.len);
	return (ZarisBytes){room, ZARIS_LMDB_HEADER + body.len};
}

TEST(numbers)
{
	char room[8];

	zaris_lmdb_store32(room, 0x04030201u);
	CHECK(memcmp(room, "\1\2\3\4", 4) == 0);
	CHECK(zaris_lmdb_load32(room) == 0x04030201u);
	zaris_lmdb_store64(room, UINT64_C(0xfffefdfc04030201));
	CHECK(memcmp(room, "\1\2\3\4\xfc\xfd\xfe\xff", 8) == 0);
	CHECK(zaris_lmdb_load64(room) == UINT64_C(0xfffefdfc04030201));
}

/* The layout is fixed: these bytes are in files out there. */
TEST(the_layout_is_fixed)
{
	static const char expected[] =
		"\1\1\0\0"
		"\xa0\x7e\x7e\x3a"
		"\3\0\0\0"
		"\x2a\0\0\0\0\0\0\0"
		"\xff\xff\xff\xff\xff\xff\xff\xff"
		"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		"abc";
	ZarisLmdbRecord record = {ZARIS_RECORD_STRING, 42, ZARIS_NO_EXPIRY, {0}, {"abc", 3}};
	char			header[ZARIS_LMDB_HEADER];

	zaris_lmdb_record_header(&record, header);
	CHECK_INT(ZARIS_LMDB_HEADER + 3, sizeof(expected) - 1);
	CHECK(memcmp(header, expected, ZARIS_LMDB_HEADER) == 0);
}

TEST(round_trips)
{
	static const ZarisBytes bodies[] = {{"", 0}, {"a", 1}, {"a\0b", 3}, {"\xff\xfe", 2}};
	static const int64_t	versions[] = {1, 2, INT64_MAX};
	static const int64_t	expiries[] = {ZARIS_NO_EXPIRY, 0, 1, INT64_MAX};

	for (size_t b = 0; b < sizeof(bodies) / sizeof(bodies[0]); b++)
	{
		for (size_t i = 0; i < 12; i++)
		{
			ZarisBytes		stored = make_record(ZARIS_RECORD_STRING, bodies[b], versions[i % 3], expiries[i / 3]);
			ZarisLmdbRecord record;

			CHECK(zaris_lmdb_record_read(stored, &record));
			CHECK(zaris_lmdb_record_verify(stored));
			CHECK_INT(ZARIS_RECORD_STRING, record.kind);
			CHECK_INT(versions[i % 3], record.version);
			CHECK_INT(expiries[i / 3], record.expiry_ms);
			CHECK_INT(255, record.operation_id[15]);
			CHECK(same_bytes(record.body, bodies[b]));
			free((char *) stored.data);
		}
	}
}

TEST(expired)
{
	ZarisLmdbRecord record = {.expiry_ms = 1000};

	CHECK(!zaris_lmdb_record_is_expired(&record, 999));
	CHECK(zaris_lmdb_record_is_expired(&record, 1000));
	record.expiry_ms = ZARIS_NO_EXPIRY;
	CHECK(!zaris_lmdb_record_is_expired(&record, INT64_MAX));
	record.expiry_ms = 0;
	CHECK(zaris_lmdb_record_is_expired(&record, 0));
}

/* Any single bit that flips is noticed, by the header's own rules or by the checksum. */
static void
check_every_bit(ZarisRecordKind kind, ZarisBytes body)
{
	ZarisBytes stored = make_record(kind, body, 7, 1234567);

	for (size_t bit = 0; bit < stored.len * 8; bit++)
	{
		ZarisBytes		damaged = exact_copy(stored.data, stored.len);
		ZarisLmdbRecord record;

		((char *) damaged.data)[bit / 8] ^= (char) (1 << (bit % 8));
		CHECK(!zaris_lmdb_record_read(damaged, &record) || !zaris_lmdb_record_verify(damaged));
		free((char *) damaged.data);
	}
	for (size_t len = 0; len < stored.len; len++)
	{
		ZarisBytes		cut = exact_copy(stored.data, len);
		ZarisLmdbRecord record;

		CHECK(!zaris_lmdb_record_read(cut, &record));
		free((char *) cut.data);
	}
	free((char *) stored.data);
}

/* hashes */

static ZarisField
field(const char *name, const char *value)
{
	return (ZarisField){bytes(name), value == NULL ? (ZarisBytes){NULL, 0} : bytes(value)};
}

/* "name=value name=value", as fields of a body. */
static void
check_body(ZarisBytes body, const char *expected, int line)
{
	ZarisLmdbScratch scratch = {0};
	ZarisField		*fields;
	char			 text[256] = "";
	int				 n = 0;

	if (zaris_lmdb_hash_read(body, &scratch, &fields, &n) != ZARIS_LMDB_HASH_OK)
		strcpy(text, "damaged");
	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%.*s=%.*s", i > 0 ? " " : "",
				 (int) fields[i].name.len, fields[i].name.data, (int) fields[i].value.len, fields[i].value.data);
	if (strcmp(text, expected) != 0 && test_complain(__FILE__, line))
		printf("body is \"%s\", not \"%s\"\n", text, expected);
	zaris_lmdb_scratch_free(&scratch);
}

TEST(hashes_merge)
{
	ZarisLmdbScratch scratch = {0};
	ZarisField		 first[] = {field("b", "2"), field("a", ""), field("d", NULL), field("c", "3")};
	ZarisField		 second[] = {field("c", NULL), field("e", "5"), field("", "0"), field("b", "22"), field("zz", NULL)};
	ZarisField		 twice[] = {field("x", "1"), field("x", "2"), field("y", "1"), field("y", NULL), field("x", "3")};
	ZarisField		 all[] = {field("a", NULL), field("b", NULL), field("c", NULL)};
	ZarisBytes		 none = {NULL, 0};
	ZarisBytes		 body,
		old;

	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, first, 4, &scratch, &body));
	check_body(body, "a= b=2 c=3", __LINE__);
	old = exact_copy(body.data, body.len);
	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(old, second, 5, &scratch, &body));
	check_body(body, "=0 a= b=22 e=5", __LINE__);
	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(old, NULL, 0, &scratch, &body));
	CHECK(same_bytes(body, old));
	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, twice, 5, &scratch, &body));
	check_body(body, "x=3", __LINE__);
	CHECK_INT(ZARIS_LMDB_HASH_EMPTY, zaris_lmdb_hash_merge(old, all, 3, &scratch, &body));
	CHECK_INT(ZARIS_LMDB_HASH_EMPTY, zaris_lmdb_hash_merge(none, NULL, 0, &scratch, &body));
	free((char *) old.data);
	zaris_lmdb_scratch_free(&scratch);
}

TEST(fields_are_found)
{
	ZarisField sorted[] = {field("", "0"), field("a", "1"), field("ab", "2"), field("b", "")};

	CHECK(same_bytes(zaris_lmdb_hash_find(sorted, 4, bytes("")), bytes("0")));
	CHECK(same_bytes(zaris_lmdb_hash_find(sorted, 4, bytes("ab")), bytes("2")));
	CHECK(same_bytes(zaris_lmdb_hash_find(sorted, 4, bytes("b")), bytes("")));
	CHECK(zaris_lmdb_hash_find(sorted, 4, bytes("aa")).data == NULL);
	CHECK(zaris_lmdb_hash_find(sorted, 4, bytes("c")).data == NULL);
	CHECK(zaris_lmdb_hash_find(sorted, 0, bytes("a")).data == NULL);
}

/* A body that lies: counts and lengths that are not there, names out of order. */
TEST(damaged_hashes)
{
	ZarisLmdbScratch scratch = {0};
	ZarisField		 good[] = {field("a", "1"), field("b", "2")};
	ZarisField		*fields;
	ZarisBytes		 none = {NULL, 0};
	ZarisBytes		 body;
	ZarisBytes		 copy;
	int				 n;

	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, good, 2, &scratch, &body));
	for (size_t len = 0; len < body.len; len++)
	{
		copy = exact_copy(body.data, len);
		CHECK_INT(ZARIS_LMDB_HASH_DAMAGED, zaris_lmdb_hash_read(copy, &scratch, &fields, &n));
		free((char *) copy.data);
		CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, good, 2, &scratch, &body));
	}
	for (size_t at = 0; at < body.len; at++)
	{
		copy = exact_copy(body.data, body.len);
		((char *) copy.data)[at] = (char) 0xff;
		(void) zaris_lmdb_hash_read(copy, &scratch, &fields, &n); /* either answer, within bounds */
		free((char *) copy.data);
		CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, good, 2, &scratch, &body));
	}

	/* "b" where "a" was: twice the same name; then in the wrong order */
	copy = exact_copy(body.data, body.len);
	((char *) copy.data)[4 + 8] = 'b';
	CHECK_INT(ZARIS_LMDB_HASH_DAMAGED, zaris_lmdb_hash_read(copy, &scratch, &fields, &n));
	((char *) copy.data)[4 + 8] = 'c';
	CHECK_INT(ZARIS_LMDB_HASH_DAMAGED, zaris_lmdb_hash_read(copy, &scratch, &fields, &n));
	free((char *) copy.data);
	zaris_lmdb_scratch_free(&scratch);
}

/* Random merges, beside a model that knows nothing of sorting or bytes. */
TEST(merges_beside_a_model)
{
	ZarisLmdbScratch scratch = {0};
	char			 model[MOST_FIELDS] = {0}; /* value of field 'a' + i; 0 = not there */
	ZarisBytes		 stored = {NULL, 0};

	for (int round = 0; round < 3000; round++)
	{
		static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
		ZarisField		  changes[8];
		int				  n = (int) (test_random(NULL) % 8);
		char			  expected[256] = "";
		char			  before[MOST_FIELDS];
		ZarisBytes		  body;

		memcpy(before, model, sizeof(before));
		for (int i = 0; i < n; i++)
		{
			int which = (int) (test_random(NULL) % MOST_FIELDS);
			int value = (int) (test_random(NULL) % 52); /* as often gone as there */

			changes[i].name = (ZarisBytes){letters + which, 1};
			changes[i].value = value >= 26 ? (ZarisBytes){NULL, 0} : (ZarisBytes){letters + value, 1};
			model[which] = value >= 26 ? 0 : letters[value];
		}
		for (int i = 0; i < MOST_FIELDS; i++)
		{
			if (model[i] != 0)
				snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s%c=%c",
						 expected[0] != '\0' ? " " : "", letters[i], model[i]);
		}
		if (expected[0] == '\0')
		{
			CHECK_INT(ZARIS_LMDB_HASH_EMPTY, zaris_lmdb_hash_merge(stored, changes, n, &scratch, &body));
			memcpy(model, before, sizeof(before));
			continue;
		}
		CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(stored, changes, n, &scratch, &body));
		check_body(body, expected, __LINE__);
		free((char *) stored.data);
		stored = exact_copy(body.data, body.len);
	}
	free((char *) stored.data);
	zaris_lmdb_scratch_free(&scratch);
}

TEST(too_large)
{
	ZarisLmdbScratch scratch = {0};
	ZarisField		 huge = {{"a", 1}, {"x", (size_t) INT32_MAX}}; /* never read */
	ZarisField		 parts[3] = {
			  {{"a", 1}, {"x", (size_t) 1 << 30}},
			  {{"b", 1}, {"x", (size_t) 1 << 30}},
			  {{"c", 1}, {"x", 1}},
	  };
	ZarisBytes none = {NULL, 0};
	ZarisBytes body;

	CHECK_INT(ZARIS_LMDB_HASH_TOO_LARGE, zaris_lmdb_hash_merge(none, &huge, 1, &scratch, &body));
	CHECK_INT(ZARIS_LMDB_HASH_TOO_LARGE, zaris_lmdb_hash_merge(none, parts, 3, &scratch, &body));
	zaris_lmdb_scratch_free(&scratch);
}

TEST(every_bit_and_every_length)
{
	ZarisLmdbScratch scratch = {0};
	ZarisField		 fields[] = {field("name", "Ada"), field("email", "")};
	ZarisBytes		 none = {NULL, 0};
	ZarisBytes		 body;

	check_every_bit(ZARIS_RECORD_STRING, bytes("some value"));
	check_every_bit(ZARIS_RECORD_STRING, bytes(""));
	CHECK_INT(ZARIS_LMDB_HASH_OK, zaris_lmdb_hash_merge(none, fields, 2, &scratch, &body));
	check_every_bit(ZARIS_RECORD_HASH, body);
	zaris_lmdb_scratch_free(&scratch);
}

int
main(void)
{
	RUN(numbers);
	RUN(the_layout_is_fixed);
	RUN(round_trips);
	RUN(expired);
	RUN(every_bit_and_every_length);
	RUN(hashes_merge);
	RUN(fields_are_found);
	RUN(damaged_hashes);
	RUN(merges_beside_a_model);
	RUN(too_large);
	return test_end();
}
