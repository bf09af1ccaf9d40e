/*
 * routine.c
 *	  Fills PostgreSQL's table of callbacks; the functions live where their work is done.
 */
#include "postgres.h"

#include "backend/compat.h"
#include "fdw/direct.h"
#include "fdw/explain.h"
#include "fdw/modify.h"
#include "fdw/plan.h"
#include "fdw/routine.h"
#include "fdw/scan.h"

FdwRoutine *
zaris_routine(void)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	/* reading */
	routine->GetForeignRelSize = zaris_get_foreign_rel_size;
	routine->GetForeignPaths = zaris_get_foreign_paths;
	routine->GetForeignPlan = zaris_get_foreign_plan;
	routine->BeginForeignScan = zaris_begin_foreign_scan;
	routine->IterateForeignScan = zaris_iterate_foreign_scan;
	routine->ReScanForeignScan = zaris_rescan_foreign_scan;
	routine->EndForeignScan = zaris_end_foreign_scan;
	routine->RecheckForeignScan = zaris_recheck_foreign_scan;

	/* writing row by row, or batch by batch */
	routine->AddForeignUpdateTargets = zaris_add_foreign_update_targets;
	routine->PlanForeignModify = zaris_plan_foreign_modify;
	routine->BeginForeignModify = zaris_begin_foreign_modify;
	routine->ExecForeignInsert = zaris_exec_foreign_insert;
	routine->ExecForeignBatchInsert = zaris_exec_foreign_batch_insert;
	routine->GetForeignModifyBatchSize = zaris_get_foreign_modify_batch_size;
	routine->ExecForeignUpdate = zaris_exec_foreign_update;
	routine->ExecForeignDelete = zaris_exec_foreign_delete;
	routine->EndForeignModify = zaris_end_foreign_modify;
	routine->BeginForeignInsert = zaris_begin_foreign_insert;
	routine->EndForeignInsert = zaris_end_foreign_insert;
	routine->IsForeignRelUpdatable = zaris_is_foreign_rel_updatable;
	routine->ExecForeignTruncate = zaris_exec_foreign_truncate;

	/* writing without reading first */
	routine->PlanDirectModify = zaris_plan_direct_modify;
	routine->BeginDirectModify = zaris_begin_direct_modify;
	routine->IterateDirectModify = zaris_iterate_direct_modify;
	routine->EndDirectModify = zaris_end_direct_modify;

	/* EXPLAIN */
	routine->ExplainForeignScan = zaris_explain_foreign_scan;
	routine->ExplainForeignModify = zaris_explain_foreign_modify;
	routine->ExplainDirectModify = zaris_explain_direct_modify;

	return routine;
}

bool
zaris_routine_is_of_server(Oid serverid)
{
	return GetFdwRoutineByServerId(serverid)->GetForeignPlan == zaris_get_foreign_plan;
}
