/*
 * problem.h
 *	  Why something about the embedded store could not be done: a status, and words that say more.
 */
#ifndef ZARIS_LMDB_PROBLEM_H
#define ZARIS_LMDB_PROBLEM_H

#include <stdbool.h>

#include "client/operation.h"

typedef struct ZarisLmdbProblem
{
	ZarisStatus status;
	char		text[ZARIS_ERROR_TEXT]; /* no capital letter, no period; cut when it is too long */
} ZarisLmdbProblem;

/* Fill in a problem. Always returns false, so that callers can return it. */
extern bool zaris_lmdb_problem(ZarisLmdbProblem *problem, ZarisStatus status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Likewise for what the system (errno) or LMDB (MDB_*) answered; format: "could not ...". */
extern bool zaris_lmdb_problem_code(ZarisLmdbProblem *problem, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The text as a sentence, made in place: for who shows it as DETAIL. */
extern const char *zaris_lmdb_sentence(ZarisLmdbProblem *problem);

#endif /* ZARIS_LMDB_PROBLEM_H */
