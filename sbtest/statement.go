package sbtest

import "strings"

// Statement is one of the statements that transactions are made of. Sessions
// prepare each once.
type Statement int

// The statements of sysbench's oltp_read_write. Their arguments are, in the
// order of their placeholders:
const (
	Begin          Statement = iota // none
	Commit                          // none
	Rollback                        // none
	PointSelect                     // id
	RangeSelect                     // first id, last id
	SumSelect                       // first id, last id
	OrderSelect                     // first id, last id
	DistinctSelect                  // first id, last id
	UpdateK                         // id
	UpdateC                         // c, id
	Delete                          // id
	Insert                          // id, k, c, pad
	// Statements is the number of them.
	Statements
)

const ofRange = " FROM " + Table + " WHERE id BETWEEN ? AND ?"

var texts = [Statements]string{
	Begin:          "BEGIN",
	Commit:         "COMMIT",
	Rollback:       "ROLLBACK",
	PointSelect:    "SELECT c FROM " + Table + " WHERE id = ?",
	RangeSelect:    "SELECT c" + ofRange,
	SumSelect:      "SELECT SUM(k)" + ofRange,
	OrderSelect:    "SELECT c" + ofRange + " ORDER BY c",
	DistinctSelect: "SELECT DISTINCT c" + ofRange + " ORDER BY c",
	UpdateK:        "UPDATE " + Table + " SET k = k + 1 WHERE id = ?",
	UpdateC:        "UPDATE " + Table + " SET c = ? WHERE id = ?",
	Delete:         "DELETE FROM " + Table + " WHERE id = ?",
	Insert:         "INSERT INTO " + Table + " (id, k, c, pad) VALUES (?, ?, ?, ?)",
}

// Text is the statement's SQL, with ? for each argument.
func (s Statement) Text() string { return texts[s] }

// Numbered is the statement's SQL with $1, $2 and so on for the arguments.
func (s Statement) Numbered() string {
	var b strings.Builder
	n := byte('0')
	for _, r := range texts[s] {
		if r == '?' {
			n++
			b.WriteByte('$')
			b.WriteByte(n)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TakesArguments reports whether the statement has placeholders.
func (s Statement) TakesArguments() bool { return strings.Contains(texts[s], "?") }

// ReturnsRows reports whether the statement is a query.
func (s Statement) ReturnsRows() bool { return strings.HasPrefix(texts[s], "SELECT") }
