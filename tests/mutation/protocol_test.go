package mutation

// Mutations of the states, of who waits for whom, and of what a snapshot sees.

var twoVersions = []mutation{
	{
		invariant: "I1", breaks: "the owner waits for writers once per job, not after every version",
		file:   "ddl/job/machine.go",
		old:    "if after.SchemaVersion != m.job.SchemaVersion {",
		new:    "if m.job.Step == StepStart {",
		caught: "ddl/job.TestJob",
		shows:  `-wait-lock`,
	},
	{
		invariant: "I1", breaks: "the lock manager lets the version before the awaited one go",
		file:   "ddl/mdl/manager.go",
		old:    "if l.tables[w.tableID].SchemaVersion >= w.version || l.doomed {",
		new:    "if l.tables[w.tableID].SchemaVersion >= w.version-1 || l.doomed {",
		caught: "ddl/mdl.TestTwoVersions",
		shows:  `writes under version \d+ while version \d+ is published`,
	},
	{
		invariant: "I1", breaks: "a job waits for one version less than it has published",
		file:   "ddl/actions.go",
		old:    "version = tbl.SchemaVersion\n",
		new:    "version = tbl.SchemaVersion - 1\n",
		caught: "ddl.TestSnapshotIsTakenAfterOldWriters",
		shows:  `expected: "delete only"\s+actual  : "write only"`,
	},
	{
		invariant: "I1", breaks: "a session writes a table under the version it has read, not the current one",
		file:   "sql/transaction.go",
		old:    "t.bound[id] = bound\n",
		new:    "bound = def.catalog\n\t\tt.bound[id] = bound\n",
		caught: "sql.TestSchemaChangesUnderTransactions/first write binds to the current version",
		shows:  `expected: \[\]string\{"1"\}\s+actual  : \[\]string\{\}`,
	},
	{
		invariant: "I1", breaks: "a writer reads the current version before it takes the lock",
		file: "ddl/mdl/lock.go",
		old: `	m.mu.Lock()
	defer m.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("mdl: bind of table %d after release", tableID)
	}
	t, ok := m.current(tableID)
`,
		new: `	t, ok := m.current(tableID)
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("mdl: bind of table %d after release", tableID)
	}
`,
		caught: "ddl/mdl.TestBindIsAtomicForTheOwner",
		shows:  `Wait returned`,
	},
	{
		invariant: "I1", breaks: "an index begins write-only",
		file:   "ddl/job/step.go",
		old:    "case s.addsIndexes:\n\t\t\treturn StepDeleteOnly",
		new:    "case s.addsIndexes:\n\t\t\treturn StepWriteOnly",
		caught: "ddl/job.TestJob",
		shows:  `-change-schema delete-only`,
	},
	{
		invariant: "I1", breaks: "an index that is undone goes from write-reorg to none",
		file:   "ddl/job/step.go",
		old:    "if s.addsIndexes {\n\t\t\treturn StepUndoDeleteOnly\n\t\t}\n",
		new:    "",
		caught: "ddl/job.TestJob",
		shows:  `-change-schema undo-delete-only`,
	},
	{
		invariant: "I1, lock off", breaks: "a transaction that the owner has gone on without commits",
		file:   "ddl/mdl/lock.go",
		old:    "if l.doomed {",
		new:    "if l.doomed && !m.opts.Enabled() {",
		caught: "ddl/mdl.TestCondemnedStaysCondemned",
		shows:  `Should be true`,
	},
	{
		invariant: "I1, lock off", breaks: "the owner does not wait for commits that have passed the check",
		file:   "ddl/mdl/manager.go",
		old:    "if !on && !l.inFlight {",
		new:    "if !on {",
		caught: "ddl/mdl.TestLockOffFailsAtCommit",
		shows:  `Wait returned`,
	},
	{
		invariant: "I1, lock off", breaks: "a session's commit does not ask whether its schema is still current",
		file:   "sql/transaction.go",
		old:    "t.txn.SetCommitCheck(t.lock.CheckCommit)",
		new:    "",
		caught: "sql.TestSchemaChangesUnderTransactions/metadata lock off fails at commit",
		shows:  `error 8028 wanted, got <nil>`,
	},
}

var snapshots = []mutation{
	{
		invariant: "I2", breaks: "S is taken while write-only transactions are open",
		file:   "ddl/job/step.go",
		old:    "case step == StepSnapshot && to == StepBackfilled:",
		new:    "case step == StepWriteReorg && to == StepSnapshot, step == StepSnapshot && to == StepBackfilled:",
		caught: "ddl.TestSnapshotWaitsForWriteOnly",
		shows:  `Should be empty, but was`,
	},
	{
		invariant: "I2", breaks: "transactions do not put entries in write-reorg",
		file:   "table/index.go",
		old:    "case model.StateWriteOnly, model.StateWriteReorganization, model.StatePublic:",
		new:    "case model.StateWriteOnly, model.StatePublic:",
		caught: "table.TestIndexMaintenanceByState",
		shows:  `insert puts`,
	},
	{
		invariant: "I2", breaks: "a snapshot does not wait for a commit below it that is in flight",
		file:   "kv/pebblekv/timeline.go",
		old:    "if newest != nil {",
		new:    "if newest != nil && newest.finished {",
		caught: "kv/pebblekv.TestConformanceInMemory/Snapshot/WaitsForCommits",
		shows:  `the snapshot did not wait`,
	},
	{
		invariant: "I2", breaks: "a transaction begins above the oldest commit in flight",
		file:   "kv/pebblekv/timeline.go",
		old:    "v = t.inflight[0].ts - 1",
		new:    "v = t.inflight[len(t.inflight)-1].ts - 1",
		caught: "kv/pebblekv.TestTimelineModel",
		shows:  `begins at or after a commit in flight`,
	},
	{
		invariant: "I2", breaks: "a commit at S itself is not seen at S",
		file:   "kv/pebblekv/iterator.go",
		old:    "if ts > i.view.ts {\n\t\t\ti.skipNewer(key)",
		new:    "if ts >= i.view.ts {\n\t\t\ti.skipNewer(key)",
		caught: "kv/pebblekv.TestConformanceInMemory/Snapshot/Fixed",
		shows:  `actual  : \[\]kvtest.pair\(nil\)`,
	},
	{
		invariant: "I2", breaks: "an update that changes an entry's value but not its key does not write it",
		file:   "table/index.go",
		old:    "return bytes.Equal(a.key, b.key) && bytes.Equal(a.value, b.value)",
		new:    "return bytes.Equal(a.key, b.key)",
		caught: "sql.TestUniqueKeyIsRewrittenBetweenScanAndImport",
		shows:  `expected: .*"ROW 25".*\s+actual  : .*"Row 25"`,
	},
}

var visibility = []mutation{
	{
		invariant: "I5", breaks: "an index is read before it is public",
		file:   "table/table.go",
		old:    "if idx.info.State == model.StatePublic {",
		new:    "if idx.info.State != model.StateDeleteOnly {",
		caught: "sql.TestSchemaChangesUnderTransactions/an index is not read before it is public",
		shows:  `expected: \[\]string\{"1"\}\s+actual  : \[\]string\{\}`,
	},
	{
		invariant: "I5", breaks: "a transaction takes up schemas published after its snapshot",
		file:   "sql/transaction.go",
		old:    "if t.txn != nil {\n\t\treturn nil\n\t}\n\tcat := t.session.engine.catalog\n",
		new:    "cat := t.session.engine.catalog\n\tif t.txn != nil {\n\t\tt.schema = cat.Current()\n\t\treturn nil\n\t}\n",
		caught: "sql.TestSchemaChangesUnderTransactions/reader keeps its schema",
		shows:  `actual  : .*"<nil>"`,
	},
	{
		invariant: "I5", breaks: "a transaction takes the schema after its snapshot",
		file:   "sql/transaction.go",
		old:    "if cat.Current() == schema {",
		new:    "if schema = cat.Current(); true {",
		caught: "sql.TestSchemaAndSnapshotBelongTogether",
		shows:  `expected: \[\]string\{"1"\}\s+actual  : \[\]string\{\}`,
	},
	{
		invariant: "I5", breaks: "a transaction does not see that its schema has changed before its snapshot",
		file:   "sql/transaction.go",
		old:    "if cat.Current() == schema {",
		new:    "if schema != nil {",
		caught: "sql.TestSchemaAndSnapshotBelongTogether",
		shows:  `expected: \[\]string\{"1", "2"\}\s+actual  : \[\]string\{"1"\}`,
	},
	{
		invariant: "I5", breaks: "a transaction reads its own writes through an index that it does not maintain",
		file:   "sql/transaction.go",
		old:    "return idx.State != model.StateDeleteOnly && idx.State != model.StateNone &&\n\t\t\t\tidx.State != model.StateDeleteReorganization",
		new:    "return true",
		caught: "sql.TestSchemaChangesUnderTransactions/own writes are seen when the index is being dropped",
		shows:  `expected: \[\]string\{"4"\}\s+actual  : \[\]string\{\}`,
	},
}

var locks = []mutation{
	{
		invariant: "metadata lock", breaks: "a transaction that writes a table again moves to its newest version",
		file:   "ddl/mdl/lock.go",
		old:    "if t, ok := l.tables[tableID]; ok {",
		new:    "if t, ok := l.tables[tableID]; ok && l.inFlight {",
		caught: "ddl/mdl.TestWaitForOlderWritersOnly",
		shows:  `a binding does not move`,
	},
	{
		invariant: "metadata lock", breaks: "a transaction that ends keeps its lock",
		file:   "sql/transaction.go",
		old:    "if t.lock != nil {\n\t\tt.lock.Release()\n\t}\n",
		new:    "",
		caught: "sql.TestSchemaChangesUnderTransactions/a connection that goes away frees the lock",
		shows:  `context deadline exceeded`,
	},
	{
		invariant: "metadata lock", breaks: "idle sessions are ended that nobody waits for",
		file:   "ddl/mdl/blocker.go",
		old:    "if t.SchemaVersion >= w.version || l.doomed {",
		new:    "if l.doomed {",
		caught: "ddl/mdl.TestIdleBlockersAreEnded",
		shows:  `expected: int\(3\)\s+actual  : uint64\(0x4\)`,
	},
}

var owners = []mutation{
	{
		invariant: "owners", breaks: "an owner whose term has ended writes records",
		file:   "ddl/owner.go",
		old:    "if owner.Term != d.term {",
		new:    "if owner.Term < d.term {",
		caught: "ddl.TestTermEndsDuringAWrite",
		shows:  `Messages:\s+<nil>`,
	},
	{
		invariant: "owners", breaks: "a write does not lock the record of its term",
		file:   "ddl/owner.go",
		old:    "if err := m.Txn.LockKeys(m.Structure().EncodeStringDataKey(ownerKey)); err != nil {\n\t\t\treturn err\n\t\t}\n",
		new:    "",
		caught: "ddl.TestTermEndsDuringAWrite",
		shows:  `Messages:\s+<nil>`,
	},
	{
		invariant: "owners", breaks: "a component that has lost its term goes on",
		file:   "ddl/owner.go",
		old:    "d.cancel(err)",
		new:    "_ = d.cancel",
		caught: "ddl.TestTermEndsDuringAWrite",
		shows:  `it stops running jobs`,
	},
	{
		invariant: "owners", breaks: "the owners of two terms have one name for a job's GC hold",
		file:   "ddl/hold.go",
		old:    `fmt.Sprintf("%s%d-%d", holdPrefix, jobID, term)`,
		new:    `fmt.Sprintf("%s%d-%d", holdPrefix, jobID, 0*term)`,
		caught: "ddl.TestNextOwnerKeepsItsHold",
		shows:  `actual  : map\[string\]uint64\{\}`,
	},
	{
		invariant: "owners", breaks: "an old owner releases the GC hold of the next",
		file:   "ddl/hold.go",
		old:    "jobID != t.id || term >= t.d.term",
		new:    "jobID != t.id || term == t.d.term",
		caught: "ddl.TestNextOwnerKeepsItsHold",
		shows:  `actual  : map\[string\]uint64\{\}`,
	},
	{
		invariant: "owners", breaks: "what an old owner imports after the roll-back stays",
		file:   "ddl/actions.go",
		old:    "if j.State == model.JobStateRollbackDone {",
		new:    "if j.State == model.JobStateRollbackDone {\n\t\treturn nil\n\t}\n\tif j.State == model.JobStateRollbackDone {",
		caught: "ddl.TestImportsAfterTheRollbackAreDeleted",
		shows:  `Should be zero, but was 5`,
	},
}

var uncertain = []mutation{
	{
		invariant: "uncertain writes", breaks: "the owner goes on from the record it knew when a write failed that was made",
		file:   "ddl/settle.go",
		old:    "case stored.Revision != known.Revision:",
		new:    "case stored.Revision < known.Revision:",
		caught: "ddl.TestUncertainWrites",
		shows:  `--- FAIL: TestUncertainWrites/alter_table.*/made `,
	},
	{
		invariant: "uncertain writes", breaks: "the schema of a write that failed and was made is not published",
		file:   "ddl/settle.go",
		old:    "if err := t.d.cat.Reload(ctx); err != nil {",
		new:    "if err := ctx.Err(); err != nil {",
		caught: "ddl.TestWritersAreAwaitedAfterAnUncertainWrite",
		shows:  `expected: "delete only"\s+actual  : "write only"`,
	},
}
