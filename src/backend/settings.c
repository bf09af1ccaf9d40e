/*
 * settings.c
 *	  The zaris.* GUCs: one table of them, each with the environment variable that it boots from.
 *
 * The environment is the server process's.  A value there that cannot be used is worth a WARNING, never a failure: the
 * library is loaded in the middle of somebody's statement.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/builtins.h"
#include "utils/guc.h"

#include "backend/compat.h"
#include "backend/settings.h"

int	 zaris_setting_request_timeout;
int	 zaris_setting_max_attempts;
int	 zaris_setting_backoff;
int	 zaris_setting_map_refresh_wait;
bool zaris_setting_disable_retries;
bool zaris_setting_batched_join;

typedef struct Setting
{
	const char *name;
	const char *environment;
	int		   *variable;
	int			fallback;
	int			min;
	int			max;
	int			unit;	  /* GUC_UNIT_MS, or 0 */
	bool		infinite; /* the environment may say "infinite" for 0 */
	const char *meaning;
	const char *more;
} Setting;

static const Setting settings[] = {
	{"zaris.request_timeout", "ZARIS_REQUEST_TIMEOUT", &zaris_setting_request_timeout, 60000, 0, INT_MAX, GUC_UNIT_MS, true,
	 "Longest time that a statement waits for an answer of a store.",
	 "Counted anew for each wait. Zero means no limit. A server's option of the same name wins."},
	{"zaris.max_attempts", "ZARIS_MAX_ATTEMPTS", &zaris_setting_max_attempts, 3, 1, 1000, 0, false,
	 "How often an operation is sent at most.",
	 "Redirects that name their target cost no attempt. A server's option of the same name wins."},
	{"zaris.backoff", "ZARIS_BACKOFF", &zaris_setting_backoff, 100, 0, 60000, GUC_UNIT_MS, false,
	 "Pause before an operation is sent again, multiplied by the number of attempts so far.",
	 "Never longer than two seconds. A server's option of the same name wins."},
	{"zaris.map_refresh_wait", "ZARIS_CLIENT_MAP_REFRESH_WAIT_MS", &zaris_setting_map_refresh_wait, 15000, 0, INT_MAX, GUC_UNIT_MS, false,
	 "Longest time that an operation waits for a newer cluster map.",
	 "The refresh goes on for those who come later. A server's option of the same name wins."},
};

#define DISABLE_RETRIES_ENVIRONMENT "ZARIS_DISABLE_RETRIES"

static void
warn_environment(const char *environment, const char *expected)
{
	/* The value is not repeated: what stands in an environment is nobody's business. */
	ereport(WARNING,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("environment variable %s of the server is not usable and is ignored", environment),
			 errdetail("Expected %s.", expected)));
}

static int
boot_integer(const Setting *setting)
{
	const char *text = getenv(setting->environment);
	int			value;

	if (text == NULL || text[0] == '\0')
		return setting->fallback;
	if (setting->infinite && pg_strcasecmp(text, "infinite") == 0)
		return 0;
	if (parse_int(text, &value, setting->unit, NULL) && value >= setting->min && value <= setting->max)
		return value;

	warn_environment(setting->environment,
					 psprintf("%s between %d and %d%s", setting->unit ? "a duration" : "a number",
							  setting->min, setting->max, setting->unit ? " ms" : ""));
	return setting->fallback;
}

static bool
boot_disable_retries(void)
{
	const char *text = getenv(DISABLE_RETRIES_ENVIRONMENT);
	bool		value;

	if (text == NULL || text[0] == '\0')
		return false;
	if (parse_bool(text, &value))
		return value;

	warn_environment(DISABLE_RETRIES_ENVIRONMENT, "true or false");
	return false;
}

void
zaris_settings_define(void)
{
	for (int i = 0; i < lengthof(settings); i++)
	{
		const Setting *setting = &settings[i];

		DefineCustomIntVariable(setting->name, setting->meaning, setting->more, setting->variable,
								boot_integer(setting), setting->min, setting->max,
								PGC_USERSET, setting->unit, NULL, NULL, NULL);
	}
	DefineCustomBoolVariable("zaris.disable_retries",
							 "Sends each operation once, follows no redirect and reports the store's raw status.",
							 "Wins over all servers' options.", &zaris_setting_disable_retries,
							 boot_disable_retries(), PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zaris.batched_join",
							 "Enables the planner's use of joins that fetch the keys of many outer rows at once.",
							 NULL, &zaris_setting_batched_join,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	MarkGUCPrefixReserved("zaris");
}
