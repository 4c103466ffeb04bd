package tidbsuite

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// statementTimeout is generous: nothing here takes more than seconds.
	statementTimeout = 5 * time.Minute
	// maxDifferences of a file are reported; more of them add nothing new.
	maxDifferences = 5
)

// errorNames are the errors that test files call by a name.
var errorNames = map[string]uint16{
	"ErrTableaccessDenied": 1142, "ER_TABLEACCESS_DENIED_ERROR": 1142, "ErrSpecificAccessDenied": 1227,
	"ErrViewInvalid": 1356, "ErrCantCreateUserWithGrant": 1410,
}

// infoLines are the server's remarks behind a number of affected rows, which the driver keeps for itself.
var infoLines = regexp.MustCompile(`(?m)^(affected rows: \d+\n)info: .*\n`)

// replay runs one test file and compares with its recorded results.
type replay struct {
	t     *testing.T
	ctx   context.Context
	addr  string
	known []difference

	clients map[string]*client
	current *client

	// want is what the file still has to answer.
	want       string
	statements int
	met        int // known differences
	unknown    int

	// What commands have switched on, for all statements and for the next one.
	info, warnings, quiet bool
	sorted                bool
	expected              []string
	replace               []replacement
	columns               []string
}

// run carries out the commands of a file, in a database of its own.
func (r *replay) run(commands []command, result, database string) {
	r.want = infoLines.ReplaceAllString(result, "$1")
	r.clients = map[string]*client{}
	defer func() {
		for _, c := range r.clients {
			c.close()
		}
	}()
	r.connect("default", "root", "", database)
	for i, c := range commands {
		if r.t.Failed() && r.unknown >= maxDifferences {
			r.t.Fatalf("%d statements differ; the rest is not run", r.unknown)
		}
		if c.name != "" {
			if err := r.command(c); err != nil {
				r.t.Fatalf("line %d: %s %s: %v", c.line, c.name, c.text, err)
			}
			continue
		}
		r.statements++
		r.compare(c, r.execute(c), following(commands[i+1:]))
		r.expected, r.replace, r.columns, r.sorted = nil, nil, nil, false
	}
	if r.want != "" {
		r.t.Errorf("there is more in the result:\n%.500s", r.want)
	}
}

// following returns the next text of the result that does not depend on answers.
func following(commands []command) string {
	for _, c := range commands {
		if c.name == "" || c.name == "echo" {
			return c.text + "\n"
		}
	}
	return ""
}

// command carries out a command of mysql-tester.
func (r *replay) command(c command) error {
	switch c.name {
	case "connect":
		args := strings.Split(strings.Trim(c.text, "()"), ",")
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}
		args = append(args, make([]string, 5)...)
		r.connect(args[0], args[2], args[3], args[4])
	case "connection":
		next, ok := r.clients[c.text]
		if !ok {
			return errors.New("there is no such connection")
		}
		r.current = next
	case "disconnect":
		gone, ok := r.clients[c.text]
		if !ok {
			return errors.New("there is no such connection")
		}
		gone.close()
		delete(r.clients, c.text)
		r.current = r.clients["default"]
	case "echo":
		rest, ok := strings.CutPrefix(r.want, c.text+"\n")
		if !ok {
			return fmt.Errorf("the result goes on with %.100q", r.want)
		}
		r.want = rest
	case "error":
		r.expected = strings.Split(c.text, ",")
	case "enable_info", "disable_info":
		r.info = c.name == "enable_info"
	case "enable_warnings", "disable_warnings":
		r.warnings = c.name == "enable_warnings"
	case "enable_result_log", "disable_result_log":
		r.quiet = c.name == "disable_result_log"
	case "sorted_result":
		r.sorted = true
	case "replace_column":
		r.columns = strings.Fields(c.text)
	case "replace_regex":
		var err error
		r.replace, err = parseReplacements(c.text)
		return err
	}
	return nil
}

// connect opens a session and makes it the current one. One that is expected to fail leaves things as they are.
func (r *replay) connect(name, user, password, database string) {
	ctx, cancel := context.WithTimeout(r.ctx, statementTimeout)
	defer cancel()
	c, err := connect(ctx, r.addr, user, password, database)
	if err != nil {
		if r.expected == nil {
			r.t.Fatalf("connect %s as %s: %v", name, user, err)
		}
		r.expected = nil
		return
	}
	if old := r.clients[name]; old != nil {
		old.close()
	}
	r.clients[name], r.current = c, c
}

// answer is what a statement has printed, its text included.
type answer struct {
	text  string
	table table
}

// execute runs a statement.
func (r *replay) execute(c command) answer {
	ctx, cancel := context.WithTimeout(r.ctx, statementTimeout)
	defer cancel()
	var out strings.Builder
	out.WriteString(c.text + "\n")
	t, err := r.print(ctx, &out, c.text)
	if err != nil || r.expected != nil {
		out.WriteString(r.outcome(err))
	}
	return answer{out.String(), t}
}

// print writes what a statement answers, if that is no error.
func (r *replay) print(ctx context.Context, out *strings.Builder, statement string) (table, error) {
	first, _ := cutWord(strings.ToLower(statement))
	if r.info && slices.Contains([]string{"insert", "replace", "update", "delete"}, first) {
		affected, err := r.current.exec(ctx, statement)
		if err != nil {
			return table{}, err
		}
		fmt.Fprintf(out, "affected rows: %d\n", affected)
	} else {
		t, err := r.current.query(ctx, statement)
		if err != nil {
			return t, err
		}
		if len(t.columns) > 0 && !r.quiet {
			if r.sorted {
				t.sort()
			}
			for i := 0; i+1 < len(r.columns); i += 2 {
				column, err := strconv.Atoi(r.columns[i])
				if err != nil {
					r.t.Fatalf("--replace_column %s: %v", strings.Join(r.columns, " "), err)
				}
				for _, row := range t.rows {
					if column <= len(row) {
						row[column-1] = []byte(r.columns[i+1])
					}
				}
			}
			t.write(out, r.replace)
		}
		if r.info {
			out.WriteString("affected rows: 0\n")
		}
		if !r.warnings {
			return t, nil
		}
	}
	if r.warnings {
		w, err := r.current.query(ctx, "show warnings")
		if err != nil {
			return w, err
		}
		if len(w.rows) > 0 {
			w.sort()
			w.write(out, r.replace)
		}
	}
	return table{}, nil
}

// rowsPointer is what errors of our builds say in addition.
var rowsPointer = regexp.MustCompile(` \(rows listed in mysql\.fastddl_ddl_errors, job \d+\)`)

// outcome is what the result says of an error, or of its absence where one was expected.
func (r *replay) outcome(err error) string {
	var e *mysql.MySQLError
	if err != nil && !errors.As(err, &e) {
		return fmt.Sprintf("not an answer of the server: %v\n", err)
	}
	for _, s := range r.expected {
		s = strings.TrimSpace(s)
		code, isName := errorNames[s]
		if n, err := strconv.ParseUint(s, 10, 16); err == nil {
			code = uint16(n)
		} else if !isName {
			r.t.Fatalf("--error %s: the name is not known", s)
		}
		switch {
		case code == 0 && e == nil:
			return ""
		case e == nil || e.Number != code:
		case strings.TrimSpace(r.expected[0]) == "0":
			return "" // the statement may fail or not, and says nothing of it
		case len(r.expected) > 1:
			return "Got one of the listed errors\n"
		default:
			text := rowsPointer.ReplaceAllString(e.Error(), "")
			for _, x := range r.replace {
				text = x.pattern.ReplaceAllString(text, x.with)
			}
			return strings.ReplaceAll(text, "\r", "") + "\n"
		}
	}
	if e == nil {
		return fmt.Sprintf("no error, expected %s\n", strings.Join(r.expected, ","))
	}
	return fmt.Sprintf("unexpected: %v\n", e)
}

// lateStatistics is what a plan says of statistics that TiDB had not loaded when it made it. It loads them in the background, so that is there or
// is not.
var lateStatistics = regexp.MustCompile(`, stats:partial\[[^\]]*\]`)

// compare takes the statement's part off the result, and reports where the answer is another.
// Next is how the result goes on behind it.
func (r *replay) compare(c command, got answer, next string) {
	got.text = lateStatistics.ReplaceAllString(got.text, "")
	if rest, ok := strings.CutPrefix(r.want, got.text); ok && (next == "" && rest == "" || next != "" && strings.HasPrefix(rest, next)) {
		r.want = rest
		return
	}
	want := r.want
	if next != "" {
		if i := strings.Index(r.want[min(len(c.text), len(r.want)):], "\n"+next); i >= 0 {
			want = r.want[:len(c.text)+i+1]
		}
	}
	r.want = r.want[len(want):]
	if sameNumbers(want, got) {
		return
	}
	for i, d := range r.known {
		if d.meets(c.text) {
			r.known[i].seen = true
			r.met++
			return
		}
	}
	r.unknown++
	r.t.Errorf("line %d: the answer differs.\nrecorded:\n%.3000s\ngot:\n%.3000s", c.line, want, got.text)
}

// sameNumbers reports whether an answer is the recorded one but for the form of numbers,
// which the driver has parsed: 1e20 for 100000000000000000000, 7 for 007.
func sameNumbers(want string, got answer) bool {
	wants, gots := strings.Split(want, "\n"), strings.Split(got.text, "\n")
	if len(wants) != len(gots) || len(got.table.columns) == 0 {
		return false
	}
	for i := range wants {
		if wants[i] == gots[i] {
			continue
		}
		a, b := strings.Split(wants[i], "\t"), strings.Split(gots[i], "\t")
		if len(a) != len(b) || len(a) != len(got.table.types) {
			return false
		}
		for col := range a {
			if a[col] != b[col] && (!parsed(got.table.types[col]) || !sameNumber(a[col], b[col])) {
				return false
			}
		}
	}
	return true
}

// parsed reports whether the driver parses a column of the type.
func parsed(typ string) bool {
	return typ == "FLOAT" || typ == "DOUBLE" || typ == "YEAR" || strings.HasSuffix(typ, "INT")
}

func sameNumber(a, b string) bool {
	if x, err := strconv.ParseInt(a, 10, 64); err == nil {
		if y, err := strconv.ParseInt(b, 10, 64); err == nil {
			return x == y
		}
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}
