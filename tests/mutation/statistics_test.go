package mutation

// Mutations of the statistics of new indexes: what would be wrong in TiDB's tables, or stay there.

var indexStatistics = []mutation{
	{
		invariant: "statistics", breaks: "a table that was never analyzed counts as analyzed",
		file:   "ddl/statistics/write.go",
		old:    "if !analyzed {",
		new:    "if false && !analyzed {",
		caught: "sql.TestStatisticsForTheNextStatement",
		shows:  `TiDB is to analyze the table`,
	},
	{
		invariant: "statistics", breaks: "an index that is undone leaves its statistics",
		file:   "ddl/actions.go",
		old:    "if r.RollingBack() {\n\t\tt.removeStatistics(ctx, r)",
		new:    "if false {\n\t\tt.removeStatistics(ctx, r)",
		caught: "sql.TestStatisticsOfACancelledIndex",
		shows:  `Not equal`,
	},
	{
		invariant: "statistics", breaks: "what a subtask does not know is taken for nothing",
		file:   "backfill/indexstats/state.go",
		old:    "if o == nil || o.Lost {",
		new:    "if o == nil {",
		caught: "backfill/indexstats.TestLost",
		shows:  `Expected nil`,
	},
	{
		invariant: "statistics", breaks: "a value at the border of two pieces counts twice",
		file:   "ingest/distribution/summary.go",
		old:    "sum.Different--",
		new:    "sum.Different -= 0",
		caught: "ingest/distribution.TestSummaryIsExact",
		shows:  `Not equal`,
	},
}
