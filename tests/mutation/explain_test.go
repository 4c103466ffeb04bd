package mutation

// explain breaks what EXPLAIN of index builds, and the check before them, promise.
var explain = []mutation{
	{
		invariant: "explain", breaks: "values of rows are shown to who may not SELECT them",
		file:   "sql/explainrows.go",
		old:    "if !x.maySelect {",
		new:    "if false {",
		caught: "sql.TestExplainShowsValuesToReadersOnly",
		shows:  `sesame`,
	},
	{
		invariant: "explain", breaks: "EXPLAIN does not ask for the privileges of the statement",
		file:   "sql/explain.go",
		old:    "return plannercore.CheckPrivilege(s.GetSessionVars().ActiveRoles, pm, builder.GetVisitInfo())",
		new:    "return nil",
		caught: "sql.TestExplainShowsValuesToReadersOnly",
		shows:  `error is expected`,
	},
	{
		invariant: "explain", breaks: "a session that has explained a build holds the lock on the table's metadata",
		file:   "sql/explain.go",
		old:    "if !s.GetSessionVars().InTxn() {\n\t\t\ts.RollbackTxn(ctx)",
		new:    "if false {\n\t\t\ts.RollbackTxn(ctx)",
		caught: "sql.TestExplainSaysWhoBuilds",
		shows:  `holds the table`,
	},
	{
		invariant: "explain", breaks: "a build that does not fit begins although that is enforced",
		file:   "ddl/preflight.go",
		old:    "case e.Verdict == estimate.DoesNotFit && enforce:",
		new:    "case false && enforce:",
		caught: "sql.TestPreflight",
		shows:  `error is expected`,
	},
	{
		invariant: "explain", breaks: "a resource without room is not missed",
		file:   "ddl/estimate/fit.go",
		old:    "return !n.Known || n.Bytes <= n.Free",
		new:    "return true",
		caught: "ddl/estimate.TestVerdicts",
		shows:  `does not fit`,
	},
	{
		invariant: "explain", breaks: "the copies that a cluster keeps are not counted",
		file:   "ddl/estimate/estimate.go",
		old:    "e.StoreBytes += one.Bytes * int64(e.Replicas)",
		new:    "e.StoreBytes += one.Bytes",
		caught: "ddl/estimate.TestVerdicts",
		shows:  `three replicas`,
	},
	{
		invariant: "explain", breaks: "places of a sample overlap",
		file:   "backfill/survey/plan.go",
		old:    "if i+1 < len(starts) && bytes.Compare(starts[i+1], end) < 0 {",
		new:    "if false {",
		caught: "backfill/survey.TestNoRowIsSampledTwice",
		shows:  `Should be zero`,
	},
}
