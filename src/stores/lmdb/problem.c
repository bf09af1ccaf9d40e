/*
 * problem.c
 *	  Error codes of the system and of LMDB become statuses and sentences (problem.h).
 */
#include "stores/lmdb/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lmdb.h>

typedef struct CodeRule
{
	int			code;
	ZarisStatus status;
	const char *text; /* NULL: the library's own words */
} CodeRule;

/* What is not listed is a request that LMDB refuses, and in all likelihood a fault of ours. */
static const CodeRule rules[] = {
	{ENOSPC, ZARIS_OUT_OF_STORAGE, NULL},
	{EDQUOT, ZARIS_OUT_OF_STORAGE, NULL},
	{EFBIG, ZARIS_OUT_OF_STORAGE, NULL},
	{EIO, ZARIS_OUT_OF_STORAGE, "Input/output error, or the disk is full"}, /* LMDB calls a short write EIO */
	{EROFS, ZARIS_OUT_OF_STORAGE, NULL},
	{ENOMEM, ZARIS_NO_MEMORY, NULL},
	{EACCES, ZARIS_PERMISSION_DENIED, NULL},
	{EPERM, ZARIS_PERMISSION_DENIED, NULL},
	{EAGAIN, ZARIS_UNAVAILABLE, NULL},
	{EBUSY, ZARIS_UNAVAILABLE, NULL},
	{EMFILE, ZARIS_UNAVAILABLE, NULL},
	{ENFILE, ZARIS_UNAVAILABLE, NULL},
	{MDB_READERS_FULL, ZARIS_UNAVAILABLE, "too many processes read it at the same time"},
	{MDB_MAP_RESIZED, ZARIS_UNAVAILABLE, "other processes make it grow faster than this one can follow"},
	{MDB_MAP_FULL, ZARIS_OUT_OF_STORAGE, "the data file cannot grow any more"},
	{MDB_TXN_FULL, ZARIS_TOO_LARGE, "the write changes too many pages"},
	{MDB_BAD_VALSIZE, ZARIS_TOO_LARGE, "key or value is too large"},
	{MDB_CORRUPTED, ZARIS_PROTOCOL_ERROR, "the data file is damaged"},
	{MDB_PAGE_NOTFOUND, ZARIS_PROTOCOL_ERROR, "the data file is damaged"},
	{MDB_CURSOR_FULL, ZARIS_PROTOCOL_ERROR, "the data file is damaged"},
	{MDB_PAGE_FULL, ZARIS_PROTOCOL_ERROR, "the data file is damaged"},
	{MDB_INVALID, ZARIS_INVALID_REQUEST, "it is not an LMDB file"},
	{MDB_VERSION_MISMATCH, ZARIS_INVALID_REQUEST, "it is used by, or was written by, another version of LMDB"},
	{MDB_PANIC, ZARIS_TRANSPORT_ERROR, "an earlier write failed, so it must be opened again"},
};

static bool fill(ZarisLmdbProblem *problem, ZarisStatus status, const char *format, va_list arguments)
	__attribute__((format(printf, 3, 0)));

static bool
fill(ZarisLmdbProblem *problem, ZarisStatus status, const char *format, va_list arguments)
{
	problem->status = status;
	vsnprintf(problem->text, sizeof(problem->text), format, arguments);
	return false;
}

bool
zaris_lmdb_problem(ZarisLmdbProblem *problem, ZarisStatus status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fill(problem, status, format, arguments);
	va_end(arguments);
	return false;
}

bool
zaris_lmdb_problem_code(ZarisLmdbProblem *problem, int code, const char *format, ...)
{
	ZarisStatus status = ZARIS_INVALID_REQUEST;
	const char *words = NULL;
	size_t		used;
	va_list		arguments;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
	{
		if (rules[i].code == code)
		{
			status = rules[i].status;
			words = rules[i].text;
			break;
		}
	}
	if (words == NULL)
		words = mdb_strerror(code);

	va_start(arguments, format);
	fill(problem, status, format, arguments);
	va_end(arguments);
	used = strlen(problem->text);
	snprintf(problem->text + used, sizeof(problem->text) - used, ": %s", words);
	return false;
}

const char *
zaris_lmdb_sentence(ZarisLmdbProblem *problem)
{
	size_t len = strlen(problem->text);

	if (problem->text[0] >= 'a' && problem->text[0] <= 'z')
		problem->text[0] = (char) (problem->text[0] - 'a' + 'A');
	if (len + 1 < sizeof(problem->text))
		strcpy(problem->text + len, ".");
	return problem->text;
}
