package mutation

// Mutations of what guards against stores, records and requests of other versions.

var formats = []mutation{
	{
		invariant: "formats", breaks: "a checkpoint of a later version is read as one of this",
		file:   "backfill/checkpoint.go",
		old:    "version.Format > checkpointFormat {",
		new:    "version.Format < 0 {",
		caught: "backfill.TestCheckpointThatCannotBeReadIsDropped",
		shows:  `.`,
	},
	{
		invariant: "formats", breaks: "a checkpoint is dropped without a word",
		file:   "backfill/build.go",
		old:    "\t\tb.opts.Bus.Emit(event.CheckpointDropped{Job: b.Job(), Err: err})\n",
		new:    "\t\t_ = event.CheckpointDropped{}\n",
		caught: "backfill.TestCheckpointThatCannotBeReadIsDropped",
		shows:  `should have 1 item`,
	},
	{
		invariant: "formats", breaks: "a record of a later version is taken for a damaged one",
		file:   "ddl/records/decode.go",
		old:    "\tif r.Later() {\n",
		new:    "\tif false {\n",
		caught: "sql.TestJobsOfALaterFormatAreSetAside",
		shows:  `later version`,
	},
	{
		invariant: "formats", breaks: "a request is granted in part",
		file:   "ddl/records/requests.go",
		old:    "\td.DisallowUnknownFields()\n",
		new:    "",
		caught: "ddl/records.TestRequestsAreReadInFull",
		shows:  `window|force`,
	},
	{
		invariant: "formats", breaks: "the files of a later engine are touched",
		file:   "kv/pebblekv/dir.go",
		old:    "format > newest {",
		new:    "format < 0 {",
		caught: "kv/pebblekv.TestOpenLaterFormats",
		shows:  `store has another format`,
	},
	{
		invariant: "formats", breaks: "system tables of a later release are taken for one's own",
		file:   "server/format.go",
		old:    "if found > bootstrapVersion {",
		new:    "if found < 0 {",
		caught: "server.TestStoreOfALaterTiDBIsRefused",
		shows:  `An error is expected|error is expected|in chain`,
	},
}
