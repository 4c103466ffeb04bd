package server

import "strings"

// statementKinds are the values of the label "type" in metrics; everything else
// is "other".
var statementKinds = map[string]bool{
	"select": true, "insert": true, "update": true, "delete": true, "replace": true, "with": true,
	"begin": true, "start": true, "commit": true, "rollback": true, "savepoint": true, "release": true,
	"set": true, "show": true, "use": true, "explain": true, "describe": true, "desc": true,
	"alter": true, "create": true, "drop": true, "truncate": true, "rename": true,
	"admin": true, "analyze": true, "kill": true, "load": true, "grant": true, "revoke": true,
	"prepare": true, "execute": true, "deallocate": true, "call": true, "lock": true, "unlock": true,
}

// maxKeyword is the length of the longest keyword in statementKinds.
const maxKeyword = len("deallocate")

// statementKind names the kind of a statement by its first keyword.
func statementKind(query string) string {
	q := skipBlank(query)
	n := 0
	for n < len(q) && n <= maxKeyword && isLetter(q[n]) {
		n++
	}
	word := strings.ToLower(q[:n])
	if statementKinds[word] {
		return word
	}
	return "other"
}

// isDDL reports whether statements of the kind may wait for a DDL job.
func isDDL(kind string) bool {
	switch kind {
	case "alter", "create", "drop", "truncate", "rename":
		return true
	}
	return false
}

// isForeground reports whether index builds give way to statements of the kind:
// not to those that only wait for a job, or that ask for one.
func isForeground(kind string) bool { return !isDDL(kind) && kind != "admin" }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// skipBlank drops leading white space, comments and parentheses.
func skipBlank(q string) string {
	for {
		q = strings.TrimLeft(q, " \t\r\n(;")
		switch {
		case strings.HasPrefix(q, "/*"):
			end := strings.Index(q, "*/")
			if end < 0 {
				return ""
			}
			q = q[end+2:]
		case strings.HasPrefix(q, "-- "), strings.HasPrefix(q, "#"):
			end := strings.IndexByte(q, '\n')
			if end < 0 {
				return ""
			}
			q = q[end+1:]
		default:
			return q
		}
	}
}
