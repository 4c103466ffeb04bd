package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/internal/sleep"
)

// quoteText returns a string literal for sessions with sqlMode. Text without backslashes and control characters is one in sessions with
// NO_BACKSLASH_ESCAPES too.
func quoteText(text string) string {
	return "'" + literalEscapes.Replace(text) + "'"
}

// quoteFor returns a string literal for the sessions of a table's rows: pure.
func (s settings) quoteFor(text string) string {
	if s.literalBackslash {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return quoteText(text)
}

var literalEscapes = strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", `\0`, "\n", `\n`, "\r", `\r`, "\x1a", `\Z`)

// importSQL returns the IMPORT INTO of a table: pure.
func importSQL(t *Table, f fields) string {
	var b strings.Builder
	fmt.Fprintf(&b, "IMPORT INTO %s", t.Name.sql())
	var targets, sets []string
	for i, c := range f.columns {
		if function, encoded := t.CSV.Decode[c]; encoded {
			v := fmt.Sprintf("@encoded%d", i)
			targets, sets = append(targets, v), append(sets, fmt.Sprintf("%s = %s(%s)", quoteName(c), function, v))
		} else {
			targets = append(targets, quoteName(c))
		}
	}
	if len(targets) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(targets, ", "))
	}
	if len(sets) > 0 {
		fmt.Fprintf(&b, " SET %s", strings.Join(sets, ", "))
	}
	first := t.Files[0]
	fmt.Fprintf(&b, " FROM %s FORMAT '%s'", t.settings().quoteFor(filepath.Join(filepath.Dir(first.Path), t.pattern)), first.Format)
	if first.Format != CSVFile {
		return b.String()
	}
	c := t.CSV
	options := []string{
		"fields_terminated_by=" + quoteText(c.TerminatedBy), "fields_enclosed_by=" + quoteText(c.EnclosedBy),
		"fields_escaped_by=" + quoteText(c.EscapedBy), "fields_defined_null_by=" + quoteText(c.Null),
	}
	if c.LinesTerminatedBy != "" {
		options = append(options, "lines_terminated_by="+quoteText(c.LinesTerminatedBy))
	}
	if f.skipHeader {
		options = append(options, "skip_rows=1")
	}
	fmt.Fprintf(&b, " WITH %s", strings.Join(options, ", "))
	return b.String()
}

// importInto loads a table by IMPORT INTO: all its rows, or none. It returns the number of rows.
func importInto(ctx context.Context, conn *sql.Conn, t *Table, f fields) (int64, error) {
	rows, err := conn.QueryContext(ctx, importSQL(t, f))
	if err != nil {
		return 0, fmt.Errorf("IMPORT INTO %s: %w", t.Name, err)
	}
	job, err := readJobs(rows)
	if err != nil {
		return 0, fmt.Errorf("IMPORT INTO %s: %w", t.Name, err)
	}
	var imported int64
	for _, j := range job {
		imported += j.rows
	}
	return imported, nil
}

// importJob is a row of SHOW IMPORT JOBS.
type importJob struct {
	target, phase, status, message string
	rows                           int64
}

// readJobs reads rows of SHOW IMPORT JOBS, by the names of its columns, and closes them.
func readJobs(rows *sql.Rows) (jobs []importJob, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var j importJob
		var count sql.NullInt64
		var rest sql.RawBytes
		targets := make([]any, len(columns))
		var target, phase, status, message sql.NullString
		for i, name := range columns {
			switch strings.ToLower(name) {
			case "target_table":
				targets[i] = &target
			case "phase":
				targets[i] = &phase
			case "status":
				targets[i] = &status
			case "result_message":
				targets[i] = &message
			case "imported_rows":
				targets[i] = &count
			default:
				targets[i] = &rest
			}
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		j.target, j.phase, j.status, j.message, j.rows = target.String, phase.String, status.String, message.String, count.Int64
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// importPoll is how often a load looks whether an import of an earlier one has ended.
const importPoll = 200 * time.Millisecond

// awaitImports waits for the imports of an earlier load, whose end was not seen. The server cancels an import when it notices that
// the client has gone; until then it may end well.
func (l *loader) awaitImports(ctx context.Context) error {
	for waited := false; ; waited = true {
		rows, err := l.db.QueryContext(ctx, "SHOW IMPORT JOBS")
		if err != nil {
			return fmt.Errorf("look for imports of an earlier load: %w", err)
		}
		jobs, err := readJobs(rows)
		if err != nil {
			return fmt.Errorf("look for imports of an earlier load: %w", err)
		}
		active := activeImport(jobs, l.before)
		if active == "" {
			return nil
		}
		if !waited {
			l.say("an earlier load's import into %s has not ended: waiting for it", active)
		}
		if !sleep.For(ctx, importPoll) {
			return context.Cause(ctx)
		}
	}
}

// activeImport returns a table into which an import of an earlier load goes on, "" for none: pure.
func activeImport(jobs []importJob, before map[Name]progress) string {
	for _, j := range jobs {
		for name, p := range before {
			if p == importing && j.target == name.sql() && (j.status == "running" || j.status == "pending") {
				return j.target
			}
		}
	}
	return ""
}

// cannotImport reports whether the server refuses IMPORT INTO as such, so that INSERT is to be tried: it knows no such statement,
// or does not read files.
func cannotImport(err error) bool {
	var theirs *mysql.MySQLError
	if !errors.As(err, &theirs) {
		return false
	}
	switch theirs.Number {
	case errno.ErrNotSupportedYet, errno.ErrOptionPreventsStatement, errno.ErrLoadDataCantRead, errno.ErrLoadDataInvalidURI, errno.ErrSpecificAccessDenied, errno.ErrParse:
		return true
	}
	return false
}
