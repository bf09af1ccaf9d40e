/*
 * check.h
 *	  Assertions of the core: on in the unit tests (-DZARIS_DEBUG) and in builds with assertions, else nothing.
 *
 * Not <assert.h> by itself: a backend that aborts takes the whole server through a restart.
 */
#ifndef ZARIS_CLIENT_CHECK_H
#define ZARIS_CLIENT_CHECK_H

#if defined(ZARIS_DEBUG) || defined(USE_ASSERT_CHECKING)
#undef NDEBUG
#include <assert.h>
#define ZARIS_ASSERT(condition) assert(condition)
#else
#define ZARIS_ASSERT(condition) ((void) 0)
#endif

#endif /* ZARIS_CLIENT_CHECK_H */
