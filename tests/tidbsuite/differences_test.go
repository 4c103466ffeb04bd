package tidbsuite

import "strings"

// difference is a statement that is answered otherwise than recorded, and why.
type difference struct {
	file string
	// statement is how it begins.
	statement string
	why       string
	// seen is set once the statement has answered otherwise.
	seen bool
}

func (d difference) meets(statement string) bool {
	return strings.HasPrefix(strings.ToLower(statement), strings.ToLower(d.statement))
}

// differences are all that are known.
var differences = []difference{
	{file: "executor/explainfor", statement: "desc format='brief' select * from information_schema.slow_query", why: slowLog},
	{file: "executor/import_into", statement: "import into ", why: noImportInto},
	{file: "globalindex/aggregate", statement: "explain format='brief' select count(*), max(id), min(id) from p use index(idx1)", why: statistics},
	{file: "globalindex/aggregate", statement: "explain format='brief' select avg(id), max(id), min(id) from p use index(idx1) group by c", why: statistics},
	{file: "index_merge", statement: "explain select /*+ use_index_merge(t1) */ * from t1 where c1 < 10 or c2 < 10 and c3 < 10 order by 1", why: statistics},
	{file: "privilege/privileges", statement: "import into ", why: noImportInto},
	{file: "executor/set", statement: "select @@global.max_connections", why: connections},
	{file: "executor/set", statement: "select @@max_connections", why: connections},
}

const (
	statistics   = "a new index has statistics when it is public, and the recorded plan is without"
	slowLog      = "the plan names the file of the slow log, which is beside the store"
	noImportInto = "secure-file-priv is not set, so that IMPORT INTO from files is refused before its options and privileges are looked at"
	connections  = "a server without max-connections takes as many as its file descriptors allow, and says so"
)

// differencesOf returns those of a file.
func differencesOf(file string) []difference {
	var of []difference
	for _, d := range differences {
		if d.file == file {
			of = append(of, d)
		}
	}
	return of
}
