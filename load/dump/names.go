package dump

import (
	"net/url"
	"regexp"
	"strings"
)

// role is what a file of a folder holds, by its name.
type role int

const (
	roleNone role = iota
	roleDatabase
	roleTable
	roleView
	roleSequence
	roleRows
	roleLeftOut
)

// route is what the name of a file says. Names are those of the file: mydumper numbers those that it cannot write
// (mydumper_0), and the statement inside has the true one.
type route struct {
	role role
	name Name
	// what names a roleLeftOut.
	what string
}

const compressedEnd = `(?:\.(?:gz|gzip|zst|zstd|snappy))?$`

// routes are tried in order. They are those of TiDB Lightning (pkg/lightning/mydump/router.go), with the files that
// it takes for tables or passes over in silence: triggers, routines, sequences, policies, and mydumper's rows in two numbered
// parts.
var routes = []struct {
	pattern *regexp.Regexp
	role    role
	what    string
}{
	{regexp.MustCompile(`(?i)^([^.]+)-schema-create\.sql` + compressedEnd), roleDatabase, ""},
	{regexp.MustCompile(`(?i)^([^.]+)\.(.+?)-schema-view\.sql` + compressedEnd), roleView, ""},
	{regexp.MustCompile(`(?i)^([^.]+)\.(.+?)-schema-sequence\.sql` + compressedEnd), roleSequence, ""},
	{regexp.MustCompile(`(?i)^([^.]+)\.(.+?)-schema-triggers?\.sql` + compressedEnd), roleLeftOut, "triggers"},
	{regexp.MustCompile(`(?i)^([^.]+)(?:\.(.+?))?-schema-post\.sql` + compressedEnd), roleLeftOut, "routines and events"},
	{regexp.MustCompile(`(?i)^([^.]+)()-placement-policy-create\.sql` + compressedEnd), roleLeftOut, "placement policy"},
	{regexp.MustCompile(`(?i)^([^.]+)\.(.+?)-schema\.sql` + compressedEnd), roleTable, ""},
	{regexp.MustCompile(`(?i)^([^.]+)\.(.+?)(?:\.[0-9]+){0,2}\.(?:sql|csv|tsv|parquet)` + compressedEnd), roleRows, ""},
}

// flat are rows in a file that is named for its table only, without a database.
var flat = regexp.MustCompile(`(?i)^([^.]+)\.(?:csv|tsv|parquet)` + compressedEnd)

// routeName returns what a file of a folder holds. database, if not empty, is that of files that name none.
func routeName(base, database string) route {
	if database != "" {
		if m := flat.FindStringSubmatch(base); m != nil {
			return route{role: roleRows, name: Name{Schema: database, Table: unescape(m[1])}}
		}
	}
	for _, r := range routes {
		if m := r.pattern.FindStringSubmatch(base); m != nil {
			out := route{role: r.role, what: r.what, name: Name{Schema: unescape(m[1])}}
			if len(m) > 2 {
				out.name.Table = unescape(m[2])
			}
			return out
		}
	}
	return route{}
}

// unescape returns the name that Dumpling and MySQL Shell write with % and two hexadecimal digits for what a file's name
// cannot have. A name with another % is taken as it is.
func unescape(name string) string {
	if plain, err := url.PathUnescape(name); err == nil && strings.Contains(name, "%") {
		return plain
	}
	return name
}
