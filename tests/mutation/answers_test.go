package mutation

// Mutations of the bounds of the store's answers.

var answers = []mutation{
	{
		invariant: "answers", breaks: "a page ends by its rows only",
		file:   "kv/embedded/cop/dag.go",
		old:    "return out.full() || most > 0 && out.bytes+source.node.held() >= most",
		new:    "return out.full() || most > 1<<60",
		caught: "kv/embedded/cop.TestPagesEndByTheirBytes",
		shows:  `is not less than or equal to`,
	},
	{
		invariant: "answers", breaks: "rows that were replaced end a page",
		file:   "kv/embedded/cop/topn.go",
		old:    "func (t *topN) held() uint64 { return t.kept }",
		new:    "func (t *topN) held() uint64 { return t.bytes }",
		caught: "kv/embedded/cop.TestPagesCountTheRowsThatTopNKeeps",
		shows:  `Should be empty`,
	},
	{
		invariant: "answers", breaks: "executors raise the demand again",
		file:   "sql/demand.go",
		old:    "\t\treq.Reset() //",
		new:    "\t\t//",
		caught: "sql.TestDemandHoldsWhereChunksGrow",
		shows:  `is not less than or equal to`,
	},
	{
		invariant: "answers", breaks: "a page of ranges that come again forgets them",
		file:   "kv/embedded/cop/scan.go",
		old:    "if bytes.Compare(r.start, r.end) < 0 && (i > 0 || !r.point) {",
		new:    "if bytes.Compare(r.start, s.stoppedAt) > 0 {",
		caught: "kv/embedded/cop.TestRestsOfPages",
		shows:  `Not equal`,
	},
	{
		invariant: "answers", breaks: "samples are cut that a column may be computed from",
		file:   "kv/embedded/cop/analyze.go",
		old:    "if !a.rows.mayCompute() {",
		new:    "if true {",
		caught: "kv/embedded/cop.TestLongSamplesAreCut",
		shows:  `a sample that a column may be computed from`,
	},
	{
		invariant: "answers", breaks: "there is always room for a page",
		file:   "kv/embedded/answers.go",
		old:    "case a.inFlight+a.page <= a.limit:",
		new:    "case a.inFlight >= 0:",
		caught: "kv/embedded.TestAnswersInFlightAreBounded",
		shows:  `there is no room for a page`,
	},
	{
		invariant: "answers", breaks: "a stream that is waited for needs room for its page",
		file:   "kv/embedded/answers.go",
		old:    "case a.first(p):",
		new:    "case p == nil:",
		caught: "kv/embedded.TestStreamsThatAreWaitedForGoOn",
		shows:  `Not equal`,
	},
	{
		invariant: "answers", breaks: "what was taken stays in flight",
		file:   "kv/embedded/answers.go",
		old:    "s.answers.hold(s, -min(size, s.held))",
		new:    "_ = size",
		caught: "kv/embedded.TestAnswersInFlightAreBounded",
		shows:  `one was taken|Should be true`,
	},
}
