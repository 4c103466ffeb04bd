package mutation

// Mutations of the edge: who gets in, and what is taken for granted.

var edge = []mutation{
	{
		invariant: "edge", breaks: "a session without a user executes statements",
		file:   "server/guardedsession.go",
		old:    "if s.GetSessionVars().User != nil {",
		new:    "if s.GetSessionVars() != nil {",
		caught: "server.TestGuardedSession",
		shows:  `no user|An error is expected`,
	},
	{
		invariant: "edge", breaks: "a statement inside another one is not looked at",
		file:   "internal/asttree/asttree.go",
		old:    "v := visitor{fn: func(n ast.Node) (inside bool, err error) { return true, fn(n) }}",
		new:    "v := visitor{fn: func(n ast.Node) (inside bool, err error) { return false, fn(n) }}",
		caught: "server.TestSecureFilePriv",
		shows:  `.`,
	},
	{
		invariant: "edge", breaks: "tables are moved without rights on both",
		file:   "server/guardedsession.go",
		old:    "return s.checkMoves(n)",
		new:    "return nil",
		caught: "server.TestMovesNeedRightsOnBothTables",
		shows:  `An error is expected|expected: \*mysql.MySQLError`,
	},
	{
		invariant: "edge", breaks: "statements write the tables by which servers agree on jobs",
		file:   "server/jobtables.go",
		old:    "if schema == mysql.SystemDB && (",
		new:    "if schema == mysql.SystemDB+\"?\" && (",
		caught: "server.TestJobTablesAreWrittenByServersOnly",
		shows:  `fastddl_ddl_record|tidb_ddl_job`,
	},
	{
		invariant: "edge", breaks: "a record that cannot be decoded keeps the server from starting",
		file:   "ddl/unreadable.go",
		old:    "return unreadableJob(row.GetInt64(0), row.GetBytes(1), err)",
		new:    "panic(err)",
		caught: "sql.TestJobsThatCannotBeReadAreSetAside",
		shows:  `decode record`,
	},
	{
		invariant: "edge", breaks: "a job that cannot be read is undone without its indexes",
		file:   "ddl/unreadable.go",
		old:    "\t\t\tadd(r, index)\n\t\t\tr.Step,",
		new:    "\t\t\tr.Step,",
		caught: "sql.TestJobsThatCannotBeReadAreSetAside",
		shows:  `sql.TestJobsThatCannotBeReadAreSetAside|unreadable_test.go`,
	},
	{
		invariant: "edge", breaks: "RESUME of a plain server cancels a build",
		file:   "ddl/tidbjob.go",
		old:    "model.AdminCommandByNotKnown",
		new:    "model.AdminCommandByEndUser",
		caught: "sql.TestPlainServersDoNotResumeBuilds",
		shows:  `successful`,
	},
	{
		invariant: "entries", breaks: "elements with one key are two entries",
		file:   "backfill/libenc.go",
		old:    "\t\t} else if again {\n",
		new:    "\t\t} else if false {\n",
		caught: "sql.TestElementsWithOneKey",
		shows:  `.`,
	},
	{
		invariant: "entries", breaks: "two rows with one key are tried again",
		file:   "ddl/samekey.go",
		old:    "if !namesRow(g) { // the key does",
		new:    "if false {",
		caught: "sql.TestRowsWithOneRowID",
		shows:  `.`,
	},
}
