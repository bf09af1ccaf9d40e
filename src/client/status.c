/*
 * status.c
 *	  What can be said of a status: tables made from ZARIS_STATUS_LIST.
 */
#include "client/status.h"

typedef struct StatusRow
{
	const char *name;
	const char *text;
	ZarisStatusClass class;
	ZarisStatusRefresh refresh;
} StatusRow;

static const StatusRow rows[] = {
#define STATUS_ROW(id, name, class, refresh, text) {name, text, ZARIS_CLASS_##class, ZARIS_REFRESH_##refresh},
	ZARIS_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

/* A value from outside the list can only be damage, so it reads as the status that ends everything. */
static const StatusRow *
row_of(ZarisStatus status)
{
	if ((unsigned) status >= ZARIS_STATUS_COUNT)
		status = ZARIS_PROTOCOL_ERROR;
	return &rows[status];
}

const char *
zaris_status_name(ZarisStatus status)
{
	return row_of(status)->name;
}

const char *
zaris_status_text(ZarisStatus status)
{
	return row_of(status)->text;
}

ZarisStatusClass
zaris_status_class(ZarisStatus status)
{
	return row_of(status)->class;
}

ZarisStatusRefresh
zaris_status_refresh(ZarisStatus status)
{
	return row_of(status)->refresh;
}
