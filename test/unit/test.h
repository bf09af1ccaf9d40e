/*
 * test.h
 *	  The tests' own few words.  A file is a program:
 *
 *		TEST(name)	{ CHECK(...); CHECK_INT(expected, actual); CHECK_TEXT("expected", actual); }
 *		int main(void) { RUN(name); ...; return test_end(); }
 *
 * A check that fails says where, and the test goes on; a test counts once, whatever it checks.  The last line is
 * "N passed, N failed"; the exit status is 1 if any failed.
 */
#ifndef ZARIS_TEST_H
#define ZARIS_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int test_passed __attribute__((unused));
static int test_failed __attribute__((unused));
static int test_complaints __attribute__((unused)); /* of the present test */

#define TEST_COMPLAINTS_SHOWN 10

/* Whether there is still room for another complaint; a loop over a million cases needs no million lines. */
static inline bool
test_complain(const char *file, int line)
{
	test_complaints++;
	if (test_complaints > TEST_COMPLAINTS_SHOWN)
		return false;
	printf("# %s:%d: ", file, line);
	return true;
}

#define CHECK(condition) \
	do \
	{ \
		if (!(condition) && test_complain(__FILE__, __LINE__)) \
			printf("not so: %s\n", #condition); \
	} while (0)

#define CHECK_INT(expected, actual) \
	do \
	{ \
		int64_t check_expected = (int64_t) (expected); \
		int64_t check_actual = (int64_t) (actual); \
		if (check_expected != check_actual && test_complain(__FILE__, __LINE__)) \
			printf("%s is %" PRId64 ", not %" PRId64 "\n", #actual, check_actual, check_expected); \
	} while (0)

#define CHECK_TEXT(expected, actual) \
	do \
	{ \
		const char *check_expected = (expected); \
		const char *check_actual = (actual); \
		if ((check_actual == NULL || strcmp(check_expected, check_actual) != 0) && \
			test_complain(__FILE__, __LINE__)) \
			printf("%s is \"%s\", not \"%s\"\n", #actual, check_actual == NULL ? "(null)" : check_actual, \
				   check_expected); \
	} while (0)

/* Bytes with lengths: expected is a string literal, whose NUL at the end does not count. */
#define CHECK_BYTES(expected, data, len) \
	do \
	{ \
		if (((len) != sizeof(expected) - 1 || memcmp((data), (expected), (len)) != 0) && \
			test_complain(__FILE__, __LINE__)) \
			printf("%s is \"%.*s\", not \"%s\"\n", #data, (int) (len), (const char *) (data), (expected)); \
	} while (0)

#define TEST(name) static void name(void)

#define RUN(name) test_run(#name, name)

static inline void
test_run(const char *name, void (*test)(void))
{
	test_complaints = 0;
	test();
	if (test_complaints == 0)
		test_passed++;
	else
		test_failed++;
	printf("%s - %s", test_complaints == 0 ? "ok" : "not ok", name);
	if (test_complaints > TEST_COMPLAINTS_SHOWN)
		printf(" (%d complaints)", test_complaints);
	printf("\n");
	fflush(stdout);
}

static inline int
test_end(void)
{
	printf("%d passed, %d failed\n", test_passed, test_failed);
	return test_failed == 0 ? 0 : 1;
}

#endif /* ZARIS_TEST_H */
