package mutation

// Mutations of builds in processes of their own: what they read, and what the store takes of them.

var buildWorkers = []mutation{
	{
		invariant: "build workers", breaks: "a checkpoint is made while transactions can still commit at S",
		file:   "backfill/worker/host.go",
		old:    "snap, err := h.opts.Store.Snapshot(ctx, w.TS)",
		new:    "snap, err := h.opts.Store.Snapshot(ctx, w.TS-1)",
		caught: "backfill/worker.TestCheckpointsHaveAllCommits",
		shows:  `snapshot at \d+`,
	},
	{
		invariant: "build workers", breaks: "files of other folders are imported",
		file:   "backfill/worker/session.go",
		old:    "filepath.Dir(f.Path) != filepath.Clean(s.dir)",
		new:    "s.dir == \"\"",
		caught: "backfill/worker.TestFilesOfOthersAreRefused",
		shows:  `another folder|a way out`,
	},
	{
		invariant: "build workers", breaks: "entries of another version are imported",
		file:   "backfill/worker/session.go",
		old:    "case f.Version != s.work.TS:",
		new:    "case f.Version == 0:",
		caught: "backfill/worker.TestFilesOfOthersAreRefused",
		shows:  `not one of the build: another version`,
	},
	{
		invariant: "build workers", breaks: "entries of other indexes are imported",
		file:   "backfill/worker/session.go",
		old:    "r.Contains(f.Start) && bytes.Compare(f.End, r.End) <= 0",
		new:    "r.Start != nil || bytes.Compare(f.End, r.End) <= 0",
		caught: "backfill/worker.TestFilesOfOthersAreRefused",
		shows:  `not one of the build: (rows|more than it|all before it)`,
	},
	{
		invariant: "build workers", breaks: "later rounds of a unique index do not see what earlier ones have imported",
		file:   "backfill/worker/serve.go",
		old:    "store.keeps = store.keeps || idx.Unique",
		new:    "store.keeps = store.keeps && idx.Unique",
		caught: "backfill/worker.TestUniqueIndexesOverSeveralRounds",
		shows:  `TestUniqueIndexesOverSeveralRounds`,
	},
	{
		invariant: "build workers", breaks: "a worker that has ended early has done its work",
		file:   "backfill/worker/session.go",
		old:    "if err := s.receive(m); err != nil {\n\t\t\treturn nil, err\n\t\t}",
		new:    "if err := s.receive(m); err != nil {\n\t\t\treturn new(done), nil\n\t\t}",
		caught: "backfill/worker.TestWorkersEndAtRandomMoments",
		shows:  `TestWorkersEndAtRandomMoments`,
	},
	{
		invariant: "build workers", breaks: "limits that change do not reach the worker",
		file:   "backfill/worker/session.go",
		old:    "if now == sent {",
		new:    "if sent.Parts.Workers > 0 {",
		caught: "backfill/worker.TestLimitsReachTheWorker",
		shows:  `deadline exceeded`,
	},
	{
		invariant: "build workers", breaks: "a checkpoint of a table lacks the store's own records",
		file:   "kv/pebblekv/checkpoint.go",
		old:    "only := []pebble.CheckpointSpan{{Start: records.Start, End: records.End}}",
		new:    "only := []pebble.CheckpointSpan{{Start: records.Start, End: records.Start}}",
		caught: "kv/pebblekv.TestCheckpointsOfSpans",
		shows:  `TestCheckpointsOfSpans`,
	},
	{
		invariant: "build workers", breaks: "a worker does not see the statements of its server",
		file:   "flow/statements.go",
		old:    "m.shown.Store(n)",
		new:    "m.shown.Store(0 * n)",
		caught: "backfill/worker.TestWorkersYieldToStatements",
		shows:  `a hundred statements run`,
	},
}
