package mutation

// Mutations of the schema states, of S, and of what is read when.

var twoVersions = []mutation{
	{
		invariant: "I1", breaks: "a state change does not require the newest diff",
		file:   "ddl/schema.go",
		old:    "if diff == nil && newest > 0 {",
		new:    "if diff == nil && newest < 0 {",
		caught: "sql.TestUnwrittenDiff",
		shows:  `the version was passed`,
	},
	{
		invariant: "I1", breaks: "after the first state nobody is waited for",
		file:   "ddl/job/machine.go",
		old:    "if after.SchemaVersion != m.record.SchemaVersion {",
		new:    "if m.record.SchemaVersion == 0 {",
		caught: "ddl/job.TestSteps",
		shows:  `I1: from "write-only"`,
	},
	{
		invariant: "I1", breaks: "the wait for the servers is left out",
		file:   "ddl/schema.go",
		old:    "if err := syncer.WaitVersionSynced(ctx, r.RowID, r.SchemaVersion); err != nil {",
		new:    "if err := ctx.Err(); err != nil {",
		caught: "sql.TestStepsWaitForTransactions",
		shows:  `the job did not wait for a transaction of the state before`,
	},
	{
		invariant: "I1", breaks: "the servers are not asked for transactions that use the table",
		file:   "ddl/schema.go",
		old:    "after.RowID, version, strconv.FormatInt(after.TableID, 10),",
		new:    "after.RowID, version, strconv.FormatInt(after.TableID+1, 10),",
		caught: "sql.TestStepsWaitForTransactions",
		shows:  `the job did not wait for a transaction of the state before`,
	},
	{
		invariant: "I1", breaks: "an index begins write-only",
		file:   "ddl/job/step.go",
		old:    "case StepQueued:\n\t\treturn StepDeleteOnly",
		new:    "case StepQueued:\n\t\treturn StepWriteOnly",
		caught: "ddl/job.TestSteps",
		shows:  `expected: 1\s+actual  : 2`,
	},
	{
		invariant: "I1", breaks: "an index that is undone goes from write-reorg to none",
		file:   "ddl/job/step.go",
		old:    "\t}\n\treturn StepUndoDeleteOnly\n}",
		new:    "\t}\n\treturn StepUndone\n}",
		caught: "ddl/job.TestUndoing",
		shows:  `change-schema undo-delete-only`,
	},
}

var snapshots = []mutation{
	{
		invariant: "I2", breaks: "S is taken before write-reorg is waited for",
		file:   "ddl/job/step.go",
		old:    "case StepSnapshot, StepBackfilled, StepCompared:\n\t\treturn false",
		new:    "case StepWriteReorg, StepSnapshot, StepBackfilled, StepCompared:\n\t\treturn false",
		caught: "ddl/job.TestSteps",
		shows:  `I2: S is taken when everybody is at write-reorg`,
	},
	{
		invariant: "I2", breaks: "the scan of rows has no barrier",
		file:   "kv/embedded/builds.go",
		old:    "if err := b.engine.Barrier(ctx, req.TS); err != nil {",
		new:    "if err := ctx.Err(); err != nil {",
		caught: "kv/embedded.TestScansHaveABarrier",
		shows:  `committed at the timestamp of a scan`,
	},
	{
		invariant: "I2", breaks: "a snapshot for a build has no barrier",
		file:   "kv/embedded/builds.go",
		old:    "if err := b.engine.Barrier(ctx, ts); err != nil {",
		new:    "if err := ctx.Err(); err != nil {",
		caught: "kv/embedded.TestBuildsBarrier",
		shows:  `Error Trace:.*store_test.go`,
	},
	{
		invariant: "I2", breaks: "a reader lets a prewritten transaction commit at its timestamp",
		file:   "kv/embedded/txn/transaction.go",
		old:    "t.minCommitTS = max(t.minCommitTS, ts+1)",
		new:    "t.minCommitTS = max(t.minCommitTS, ts)",
		caught: "kv/embedded/txn.TestReadersPushPrewrittenTransactions",
		shows:  `it may commit at a timestamp that was read`,
	},
	{
		invariant: "I2", breaks: "a commit below the least commit timestamp is not refused",
		file:   "kv/embedded/txn/commit.go",
		old:    "if commitTS < t.minCommitTS {",
		new:    "if commitTS < t.startTS {",
		caught: "kv/embedded/txn.TestReadersPushPrewrittenTransactions",
		shows:  `which was read at`,
	},
	{
		invariant: "I2", breaks: "a commit that is under way is not waited for",
		file:   "kv/embedded/txn/transaction.go",
		old:    "if c := t.commitTS.Load(); c != 0 && c <= ts {\n\t\t\treturn endPatience, nil",
		new:    "if c := t.commitTS.Load(); c != 0 && c <= ts {\n\t\t\treturn 0, nil",
		caught: "kv/embedded/txn.TestReadersWaitForTheDisk",
		shows:  `before it was durable`,
	},
	{
		invariant: "I2", breaks: "a commit at S itself is not seen at S",
		file:   "kv/pebblekv/iterator.go",
		old:    "if ts > i.view.ts {\n\t\t\ti.skipped(key, ts)\n\t\t\ti.skipNewer(key)",
		new:    "if ts >= i.view.ts {\n\t\t\ti.skipped(key, ts)\n\t\t\ti.skipNewer(key)",
		caught: "kv/pebblekv.TestConformanceInMemory/Snapshot/Fixed",
		shows:  `actual  : \[\]kvtest.pair\(nil\)`,
	},
}

var visibility = []mutation{
	{
		invariant: "I5", breaks: "an index becomes public before its entries are there",
		file:   "ddl/job/step.go",
		old:    "case StepQuiet:\n\t\treturn StepBackfilled",
		new:    "case StepQuiet:\n\t\treturn StepPublic",
		caught: "ddl/job.TestSteps",
		shows:  `-\s+\(job.Action\) \(len=8\) "backfill"`,
	},
	{
		invariant: "I5", breaks: "write-reorg is shown as public",
		file:   "ddl/schema.go",
		old:    "idx.State = after.SchemaState()\n",
		new:    "idx.State = after.SchemaState()\n\t\t\tif after.Step == job.StepWriteReorg {\n\t\t\t\tidx.State = model.StatePublic\n\t\t\t}\n",
		caught: "sql.TestIndexIsReadFromItsPublication",
		shows:  `expected: \[\]int\{1176, 1176, 1176, 1176, 1176\}`,
	},
	{
		invariant: "I5", breaks: "an index is undone after its publication",
		file:   "ddl/job/step.go",
		old:    "case StepPublic, StepUndoDeleteOnly, StepUndone, StepFinished:",
		new:    "case StepUndoDeleteOnly, StepUndone, StepFinished:",
		caught: "ddl/job.TestErrors",
		shows:  `what is public is never undone`,
	},
}
