package mutation

// files are mutations after which a row that an embedded store's scan has lost, or a file that is not what was written,
// is not noticed.
var files = []mutation{
	{
		invariant: "verification", breaks: "what a scan has visited is counted where rows are decoded",
		file:   "kv/pebblekv/scan.go",
		old:    "batch.Visited = s.it.takeVisited()",
		new:    "batch.Visited = s.dec.rows",
		caught: "kv/pebblekv.TestVisitedCountsRowsThatABatchHasLost",
		shows:  `the lost row was not visited`,
	},
	{
		invariant: "verification", breaks: "a scan that has left out a part of its range has ended",
		file:   "kv/pebblekv/scan.go",
		old:    "return s.ended()",
		new:    "return nil",
		caught: "kv/pebblekv.TestScansTileTheirRange",
		shows:  `the end is left out`,
	},
	{
		invariant: "verification", breaks: "a scan reads a part of its range twice",
		file:   "kv/pebblekv/scan.go",
		old:    "bytes.Compare(s.it.key, s.handedOut) <= 0",
		new:    "false",
		caught: "kv/pebblekv.TestScansTileTheirRange",
		shows:  `the beginning is read twice`,
	},
}
