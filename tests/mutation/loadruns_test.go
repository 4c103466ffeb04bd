package mutation

// Mutations of loads: rows lost, there twice, or under two keys.
var loadRuns = []mutation{
	{
		invariant: "loads", breaks: "rows that an interrupted import has left are not deleted",
		file:   "load/run.go",
		old:    "case cp.Importing:\n",
		new:    "case cp.Importing && false:\n",
		caught: "load.TestInterruptedImportIsDeleted",
		shows:  `index differs|loaded table|Received unexpected error`,
	},
	{
		invariant: "loads", breaks: "that an import begins is not recorded",
		file:   "load/run.go",
		old:    "return l.save(ctx, cp.importing())",
		new:    "return ctx.Err()",
		caught: "load.TestInterruptedImportIsDeleted",
		shows:  `index differs|loaded table|Received unexpected error`,
	},
	{
		invariant: "loads", breaks: "what a worker has left of a chunk is lost",
		file:   "load/read.go",
		old:    "w.q.giveBack(c)",
		new:    "_ = c",
		caught: "load.TestLoadIsResumed",
		shows:  `(?s)Not equal.*expected`,
	},
	{
		invariant: "loads", breaks: "two rows that are equal as a whole are one",
		file:   "ingest/merge.go",
		old:    "case m.once:\n",
		new:    "case false:\n",
		caught: "load.TestDuplicateRows",
		shows:  `was added twice|Should be in error chain`,
	},
	{
		invariant: "loads", breaks: "files of spaces that lie between each other overlap",
		file:   "ingest/flush.go",
		old:    "return w.Finish(ctx)\n}\n\n// wanted",
		new:    "return ctx.Err()\n}\n\n// wanted",
		caught: "load.TestLoad",
		shows:  `import units overlap`,
	},
	{
		invariant: "loads", breaks: "what was read back is not compared",
		file:   "load/verify.go",
		old:    "if r.got != r.want {",
		new:    "if r.got.Entries > r.want.Entries {",
		caught: "load.TestLostPairsFailTheLoad",
		shows:  `error|chain`,
	},
	{
		invariant: "loads", breaks: "a row without an entry of an index is not missed",
		file:   "load/verify.go",
		old:    "if n != cp.Rows && (s.index",
		new:    "if n > cp.Rows && (s.index",
		caught: "load.TestRowWithoutEntryFailsTheLoad",
		shows:  `error|chain`,
	},
	{
		invariant: "loads", breaks: "garbage collection is not held at the version of an import",
		file:   "load/hold.go",
		old:    "l.spec.JobID), version, holdTTL)",
		new:    "l.spec.JobID), version, 1)",
		caught: "load.TestGarbageCollectionDuringALoad",
		shows:  `is below|passed`,
	},
}
