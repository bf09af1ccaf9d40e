/*
 * deadline.h
 *	  What set the deadline of the last wait.  Private to src/backend; zaris_deadline() itself is in wait.h.
 */
#ifndef ZARIS_BACKEND_DEADLINE_H
#define ZARIS_BACKEND_DEADLINE_H

#include "postgres.h"

typedef struct ZarisDeadlineBound
{
	int			sqlstate; /* of an operation that it ends */
	const char *setting;  /* its name, for hints */
	const char *words;	  /* how a message calls it */
} ZarisDeadlineBound;

extern const ZarisDeadlineBound *zaris_deadline_bound(void);

#endif /* ZARIS_BACKEND_DEADLINE_H */
