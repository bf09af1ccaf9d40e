/*
 * drivers.c
 *	  The list of stores that are linked in: the only place that names one.
 */
#include "client/store.h"

#include "stores/lmdb/lmdb.h"
#include "stores/resp/resp.h"

const ZarisStoreDriver *const zaris_store_drivers[] = {
	&zaris_resp_driver,
	&zaris_lmdb_driver,
	NULL};

const ZarisStoreDriver *
zaris_store_driver(ZarisUrlScheme scheme)
{
	for (int i = 0; zaris_store_drivers[i] != NULL; i++)
	{
		if (zaris_store_drivers[i]->scheme == scheme)
			return zaris_store_drivers[i];
	}
	return NULL;
}
