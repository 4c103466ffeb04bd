package dump

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// fakeServer counts the statements that a load sends. IMPORT INTO reads its files, as a server does.
type fakeServer struct {
	// fail, if set, returns the error of a statement.
	fail func(query string) error

	// answer, if set, returns the rows of a query.
	answer func(query string) [][]driver.Value

	mu sync.Mutex
	// made are the statements that have succeeded of those that define tables and sequences.
	made []string
	// viewSession is what the connection that has created a view was set to.
	viewSession []string
	// rows are the INSERT statements that each table has got, by name as it is quoted.
	rows   map[string][]string
	states map[string]string
	// spooled is the largest sum of the sizes of files below spool that was seen at an import.
	spool   string
	spooled int64
}

func (s *fakeServer) Connect(context.Context) (driver.Conn, error) { return &fakeConn{server: s}, nil }
func (s *fakeServer) Driver() driver.Driver                        { return nil }

func (s *fakeServer) open() *sql.DB {
	s.rows, s.states = make(map[string][]string), make(map[string]string)
	return sql.OpenDB(s)
}

var (
	insertInto = regexp.MustCompile("^INSERT INTO `(\\w+)`")
	defines    = regexp.MustCompile("^(CREATE (TABLE|SEQUENCE|INDEX|VIEW)|ALTER|DROP (TABLE|SEQUENCE)|DO) ")
	truncate   = regexp.MustCompile("^TRUNCATE TABLE `d`.`(\\w+)`")
	importFrom = regexp.MustCompile("^IMPORT INTO `d`.`(\\w+)` FROM '([^']+)'")
)

// exec obeys a statement.
func (s *fakeServer) exec(query string, args []driver.NamedValue) error {
	if s.fail != nil {
		if err := s.fail(query); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case insertInto.MatchString(query):
		table := insertInto.FindStringSubmatch(query)[1]
		s.rows[table] = append(s.rows[table], query)
	case defines.MatchString(query):
		s.made = append(s.made, query)
	case truncate.MatchString(query):
		delete(s.rows, truncate.FindStringSubmatch(query)[1])
	case importFrom.MatchString(query):
		m := importFrom.FindStringSubmatch(query)
		return s.importFiles(m[1], m[2])
	case strings.HasPrefix(query, "REPLACE INTO "+stateTable):
		s.states[args[1].Value.(string)] = args[3].Value.(string)
	case strings.HasPrefix(query, "DELETE FROM "+stateTable):
		delete(s.states, args[1].Value.(string))
	}
	return nil
}

func (s *fakeServer) importFiles(table, pattern string) error {
	if len(s.rows[table]) > 0 {
		return errors.New("the table is not empty")
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		s.rows[table] = append(s.rows[table], strings.Split(strings.TrimSuffix(string(text), statementEnd), statementEnd)...)
	}
	all, err := filepath.Glob(filepath.Join(s.spool, "*", "*.sql"))
	var sum int64
	for _, f := range all {
		if info, err := os.Stat(f); err == nil {
			sum += info.Size()
		}
	}
	s.spooled = max(s.spooled, sum)
	return err
}

// fakeConn remembers what it was set to.
type fakeConn struct {
	server *fakeServer
	set    []string
	locked bool // has the lock on the state of loads
}

// changesState matches what several loads must not do at a time.
var changesState = regexp.MustCompile("^(REPLACE|DELETE|CREATE|DROP) .*`fastddl_load`")

var refusal = &mysql.MySQLError{Number: 1235, Message: "not supported"}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }

func (c *fakeConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, "SET ") {
		c.set = append(c.set, query)
	}
	if strings.HasPrefix(query, "DO RELEASE_LOCK") {
		c.locked = false
		return driver.RowsAffected(0), nil
	}
	if changesState.MatchString(query) && !c.locked {
		return nil, errors.New("the state of loads is changed without its lock: " + query)
	}
	if strings.HasPrefix(query, "CREATE VIEW") {
		c.server.mu.Lock()
		c.server.viewSession = slices.Clone(c.set)
		c.server.mu.Unlock()
	}
	return driver.RowsAffected(1), c.server.exec(query, args)
}

func (c *fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.HasPrefix(query, "SELECT GET_LOCK") {
		c.locked = true
		return &someRows{left: [][]driver.Value{{int64(1)}}, columns: 1}, nil
	}
	if c.server.answer != nil {
		if rows := c.server.answer(query); len(rows) > 0 {
			return &someRows{left: rows, columns: len(rows[0])}, nil
		}
	}
	return noRows{}, c.server.exec(query, args)
}

type noRows struct{}

func (noRows) Columns() []string         { return []string{"Imported_Rows"} }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

type someRows struct {
	left    [][]driver.Value
	columns int
}

func (r *someRows) Columns() []string { return make([]string, r.columns) }
func (r *someRows) Close() error      { return nil }
func (r *someRows) Next(row []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(row, r.left[0])
	r.left = r.left[1:]
	return nil
}
