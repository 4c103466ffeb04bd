package mutation

// Mutations of fastddl load: whose rows are in a table, and how often.

var dumps = []mutation{
	{
		invariant: "dumps", breaks: "rows of a dump are mixed with those of others",
		file:   "load/dump/plan.go",
		old:    "case filled:",
		new:    "case filled && before != unknown:",
		caught: "load/dump.TestPlanNeverTouchesForeignRows",
		shows:  `rows_of_others`,
	},
	{
		invariant: "dumps", breaks: "rows of an interrupted load are inserted again",
		file:   "load/dump/plan.go",
		old:    "a.empty = true",
		new:    "a.empty = !filled",
		caught: "load/dump.TestPlanNeverTouchesForeignRows",
		shows:  `INSERTs_that_were_interrupted`,
	},
	{
		invariant: "dumps", breaks: "part of a table's rows, left by INSERTs, is taken for all of an import's",
		file:   "load/dump/tables.go",
		old:    "if err := l.empty(ctx, a); err != nil {\n\t\treturn err\n\t}\n",
		new:    "",
		caught: "load/dump.TestInterruptedINSERTsAreGoneBeforeAnImport",
		shows:  `importing`,
	},
	{
		invariant: "dumps", breaks: "files of another table are imported with a table's own",
		file:   "load/dump/pattern.go",
		old:    "if matched != len(own) {",
		new:    "if matched < len(own) {",
		caught: "load/dump.TestPatternsMatchOneTable",
		shows:  `d\.tt|Not equal`,
	},
	{
		invariant: "dumps", breaks: "a file that was cut off is taken for a whole one",
		file:   "load/dump/scan.go",
		old:    "return fmt.Errorf(\"line %d: the file ends inside of %s: %w\", line, of, io.ErrUnexpectedEOF)",
		new:    "return io.EOF",
		caught: "load/dump.TestScannerRefusesWhatHasNoEnd",
		shows:  `unexpected EOF`,
	},
	{
		invariant: "dumps", breaks: "a table that lacks rows is noted as loaded",
		file:   "load/dump/tables.go",
		old:    "rows, err := in.finish(readErr)\n\tif err != nil {",
		new:    "rows, err := in.finish(readErr)\n\tif err != nil && rows == 0 {",
		caught: "load/dump.TestFailedStatementEndsTheLoad",
		shows:  `elements differ|Expected error with "broken"`,
	},
	{
		invariant: "dumps", breaks: "a load removes folders that only have names like those of loads",
		file:   "cmd/fastddl/load.go",
		old:    "case err == nil && string(owner) == path:",
		new:    "case len(owner) >= 0:",
		caught: "cmd/fastddl.TestOldSpoolFoldersAreThoseOfLoads",
		shows:  `Not equal`,
	},
	{
		invariant: "dumps", breaks: "a load drops the state that another has noted since it looked",
		file:   "load/dump/state.go",
		old:    "	return s.locked(ctx, func(conn *sql.Conn) error { return note(ctx, conn, name, identity, p) })",
		new:    "	conn, err := s.db.Conn(ctx)\n	if err != nil {\n		return err\n	}\n	defer conn.Close()\n	return note(ctx, conn, name, identity, p)",
		caught: "load/dump.TestFailedStatementEndsTheLoad",
		shows:  `without its lock`,
	},
}
