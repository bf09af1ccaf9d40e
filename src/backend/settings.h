/*
 * settings.h
 *	  The zaris.* GUCs.  Boot values come from the environment of the server process (DESIGN 11).
 *
 * One table in settings.c defines them; docs and script/lint read it.  A server's option of the same name wins,
 * but zaris.disable_retries wins over all.
 */
#ifndef ZARIS_BACKEND_SETTINGS_H
#define ZARIS_BACKEND_SETTINGS_H

#include "postgres.h"

extern int	zaris_setting_request_timeout;	/* ms; 0 = none; ZARIS_REQUEST_TIMEOUT ("infinite" = 0) */
extern int	zaris_setting_max_attempts;		/* ZARIS_MAX_ATTEMPTS */
extern int	zaris_setting_backoff;			/* ms; ZARIS_BACKOFF */
extern int	zaris_setting_map_refresh_wait; /* ms; ZARIS_CLIENT_MAP_REFRESH_WAIT_MS */
extern bool zaris_setting_disable_retries;	/* ZARIS_DISABLE_RETRIES */
extern bool zaris_setting_batched_join;		/* for planner's experiments, as enable_hashjoin is; no environment variable */

extern void zaris_settings_define(void); /* from _PG_init */

#endif /* ZARIS_BACKEND_SETTINGS_H */
