package mutation

// entries are mutations after which an index says something else of a row than TiDB does.
var entries = []mutation{
	{
		invariant: "entries", breaks: "a row that repeats its handle is asked for it, not its key",
		file:   "kv/embedded/cop/tablescan.go",
		old:    "infos[i].ID = model.ExtraHandleID",
		new:    "d.handles[0] = col.ColumnId",
		caught: "kv/embedded/cop.TestHandleIsTheKeys",
		shows:  `-1275044491`,
	},
	{
		invariant: "entries", breaks: "zeros of columns added later have no fraction",
		file:   "backfill/encode/columns.go",
		old:    "def, err = asStored(def, &col.FieldType); err != nil",
		new:    "_, err = asStored(def, &col.FieldType); err != nil",
		caught: "tests/shapes.TestShapesFoundBySearch/zeros of columns added later",
		shows:  `differs from its table`,
	},
	{
		invariant: "entries", breaks: "a duplicate is shown as any of its rows has it",
		file:   "ddl/verdict/duplicate.go",
		old:    "rows[0].value",
		new:    "g.Values[0]",
		caught: "tests/shapes.TestShapesFoundBySearch/duplicates that a collation takes for equal",
		shows:  `Duplicate entry 'B'`,
	},
	{
		invariant: "entries", breaks: "TiDB's own imports write beside the keyspace",
		file:   "server/tidbconfig.go",
		old:    "t.Path, t.KeyspaceName = servers, keyspace",
		new:    "t.Path = servers",
		caught: "server.TestTiDBKnowsTheKeyspace",
		shows:  `"orders"`,
	},
}
