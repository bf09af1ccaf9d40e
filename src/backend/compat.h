/*
 * compat.h
 *	  Every difference between the PostgreSQL versions 15 to 18 that this extension meets, spelt like the newest.
 *
 * The rest of the code is written for the newest version; here its words are explained to the older ones.  Include
 * it after postgres.h and instead of the headers that it includes.
 */
#ifndef ZARIS_BACKEND_COMPAT_H
#define ZARIS_BACKEND_COMPAT_H

#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "zaris_fdw needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "storage/waiteventset.h"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 exports what says so; before, everything was exported, and -fvisibility=hidden hides it all. */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

/* 18: a specifier in front instead of an attribute behind; a module may tell its name. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn				 _Noreturn
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

/* 17 took fdw_restrictinfo, 18 disabled_nodes as new arguments. */
#if PG_VERSION_NUM < 170000
#define create_foreignscan_path(root, rel, target, rows, disabled_nodes, startup_cost, total_cost, pathkeys, \
								required_outer, fdw_outerpath, fdw_restrictinfo, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup_cost, total_cost, pathkeys, \
							required_outer, fdw_outerpath, fdw_private)
#elif PG_VERSION_NUM < 180000
#define create_foreignscan_path(root, rel, target, rows, disabled_nodes, startup_cost, total_cost, pathkeys, \
								required_outer, fdw_outerpath, fdw_restrictinfo, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup_cost, total_cost, pathkeys, \
							required_outer, fdw_outerpath, fdw_restrictinfo, fdw_private)
#endif

/* 17: a set belongs to a resource owner; NULL = to the session, for which the older ones have TopMemoryContext. */
#if PG_VERSION_NUM < 170000
#define CreateWaitEventSet(resowner, nevents) \
	CreateWaitEventSet((AssertMacro((resowner) == NULL), TopMemoryContext), nevents)
#define WaitEventExtensionNew(name) PG_WAIT_EXTENSION
#endif

/* What PostgreSQL itself ends a statement by, and with which SQLSTATE; 17 has one more. */
#if PG_VERSION_NUM >= 170000
#define ZARIS_TIMEOUTS \
	{STATEMENT_TIMEOUT, ERRCODE_QUERY_CANCELED, "statement_timeout", "the statement timeout"}, \
	{ \
		TRANSACTION_TIMEOUT, ERRCODE_TRANSACTION_TIMEOUT, "transaction_timeout", "the transaction timeout" \
	}
#else
#define ZARIS_TIMEOUTS \
	{ \
		STATEMENT_TIMEOUT, ERRCODE_QUERY_CANCELED, "statement_timeout", "the statement timeout" \
	}
#endif

/* 16: one function for all kinds of objects, of which only servers are asked for here. */
#if PG_VERSION_NUM < 160000
static inline AclResult
object_aclcheck(Oid classid, Oid objectid, Oid roleid, AclMode mode)
{
	Assert(classid == ForeignServerRelationId);
	return pg_foreign_server_aclcheck(objectid, roleid, mode);
}
#endif

/*
 * As whom a result relation's access is checked: 0 = the current user.  A partition that tuples are routed to has no
 * range table entry before 16; its root's counts.
 */
#if PG_VERSION_NUM < 160000
static inline Oid
ExecGetResultRelCheckAsUser(ResultRelInfo *relInfo, EState *estate)
{
	if (relInfo->ri_RangeTableIndex == 0 && relInfo->ri_RootResultRelInfo != NULL)
		relInfo = relInfo->ri_RootResultRelInfo;
	if (relInfo->ri_RangeTableIndex == 0)
		return InvalidOid;
	return exec_rt_fetch(relInfo->ri_RangeTableIndex, estate)->checkAsUser;
}
#endif

/* The same for a scan: 16 keeps it in the plan node. */
static inline Oid
ForeignScanCheckAsUser(const ForeignScan *plan, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	return plan->checkAsUser;
#else
	return exec_rt_fetch(plan->scan.scanrelid, estate)->checkAsUser;
#endif
}

#endif /* ZARIS_BACKEND_COMPAT_H */
