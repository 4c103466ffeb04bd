package mutation

// Mutations of what a load reads.

var loads = []mutation{
	{
		invariant: "loads", breaks: "a compressed file that is cut off ends there",
		file:   "load/rows/stream.go",
		old:    `return n, s.fail(fmt.Errorf("the compressed file is cut off after offset %d", s.at))`,
		new:    "return n, io.EOF",
		caught: "load/rows.TestTruncatedCompressedFile",
		shows:  `An error is expected but got nil`,
	},
	{
		invariant: "loads", breaks: "files are cut inside quotes",
		file:   "load/rows/cut.go",
		old:    "case s.inQuotes:",
		new:    "case s.inQuotes && s.skip:",
		caught: "load/rows.TestLongQuotedFieldAtACut",
		shows:  `Received unexpected error`,
	},
	{
		invariant: "loads", breaks: "two readers get the same row IDs",
		file:   "load/rows/ids.go",
		old:    "ids.next[c] += n",
		new:    "ids.next[c] += (n + 1) / 2",
		caught: "load/rows.TestRowIDsOfManyFilesAreUnique",
		shows:  `twice`,
	},
	{
		invariant: "loads", breaks: "a NULL in an AUTO_INCREMENT key is a 0",
		file:   "load/rows/auto.go",
		old:    "if id != 0 || a.keepZero {",
		new:    "if id >= 0 {",
		caught: "load/rows.TestTraps",
		shows:  `Not equal`,
	},
	{
		invariant: "loads", breaks: "the names of INSERT's columns are ignored",
		file:   "load/rows/fields.go",
		old:    "f.list = append(f.list, field{column: column.Offset})\n\t}\n\treturn f, nil",
		new:    "f.list = append(f.list, field{column: visible[len(f.list)].Offset + 0*column.Offset})\n\t}\n\treturn f, nil",
		caught: "load/rows.TestTraps",
		shows:  `Not equal`,
	},
	{
		invariant: "loads", breaks: "a generated column may be NULL where it is NOT NULL",
		file:   "load/rows/encoder.go",
		old:    "if err := column.HandleBadNull(e.errs, &cast, 0); err != nil {",
		new:    "if cast.IsNull() && len(e.row) == 0 {",
		caught: "load/rows.TestTraps",
		shows:  `Not equal`,
	},
	{
		invariant: "loads", breaks: "a rest begins with the row that was returned last",
		file:   "load/rows/reader.go",
		old:    "c.Start, c.Columns = r.rest,",
		new:    "c.Start, c.Columns = r.start,",
		caught: "load/rows.TestRestGoesOn",
		shows:  `Not equal`,
	},
	{
		invariant: "loads", breaks: "statements may end behind a comma",
		file:   "load/rows/statements.go",
		old:    "case err == io.EOF && p.inRows && !p.afterRow:",
		new:    "case err == io.EOF && p.inRows && !p.inRows:",
		caught: "load/rows.TestTraps",
		shows:  `in chain`,
	},
	{
		invariant: "loads", breaks: "text of any length is plain",
		file:   "load/rows/plain.go",
		old:    "if len(text) > c.length ||",
		new:    "if len(text) > 1<<20 ||",
		caught: "load/rows.TestPlainValuesEqualTiDBs",
		shows:  `Received unexpected error`,
	},
}
