package sqlerr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	pingcap "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/errno"
	tidbmysql "github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/config"
	"fastddl/kv"
)

// Numbers that MySQL 8 has and TiDB's table of errors lacks.
const (
	erCheckConstraintViolated = 3819
	erQueryTimeout            = 3024
)

// texts replaces messages that name TiDB, or that MySQL words differently.
var texts = map[uint16]string{
	errno.ErrNotSupportedYet: "This version of fastddl doesn't yet support '%s'",
	errno.ErrParse:           "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use %s",
	errno.ErrTxnTooLarge:     "Transaction is too large",
	errno.ErrUnknown:         "%s",
}

// New returns the error with the given MySQL or TiDB number; args fill in the
// standard text of that number.
func New(number uint16, args ...any) *mysql.SQLError {
	format, ok := texts[number]
	if !ok {
		if m, known := errno.MySQLErrName[number]; known {
			format, ok = m.Raw, true
		}
	}
	if !ok {
		return Newf(number, "%s", fmt.Sprint(args...))
	}
	return Newf(number, format, args...)
}

// Newf returns the error with the given MySQL or TiDB number and a text of its
// own.
func Newf(number uint16, format string, args ...any) *mysql.SQLError {
	return mysql.NewSQLError(int(number), State(number), format, args...)
}

// State returns the SQLSTATE of an error number, HY000 where it has none of its
// own.
func State(number uint16) string {
	if s, ok := extraStates[number]; ok {
		return s
	}
	if s, ok := tidbmysql.MySQLState[number]; ok {
		return s
	}
	return mysql.SSUnknownSQLState
}

// extraStates holds the SQLSTATEs of MySQL 8 numbers that TiDB's table lacks.
var extraStates = map[uint16]string{
	1792: "25006",
	3140: "22032",
	3141: "22032",
	3146: "22032",
}

// Statement is what is known about the statement that failed. It completes the
// texts that go-mysql-server leaves incomplete: the database of a table, the
// clause of a column. The zero value is fine.
type Statement struct {
	// DB is the current database.
	DB string
	// Text is the statement.
	Text string
}

// Translate is Statement{}.Translate.
func Translate(err error) *mysql.SQLError { return Statement{}.Translate(err) }

// Translate gives err its MySQL number, SQLSTATE and text. It returns nil for
// nil.
func (s Statement) Translate(err error) *mysql.SQLError {
	if err == nil {
		return nil
	}
	var known *mysql.SQLError
	if errors.As(err, &known) && known.Num != mysql.ERUnknownError {
		return s.complete(known)
	}
	if e := fromOwn(err); e != nil {
		return e
	}
	if e := fromTerror(err); e != nil {
		return e
	}
	if known == nil {
		// The kinds of go-mysql-server that it numbers itself.
		known = gms.CastSQLError(gms.UnwrapError(err))
		if known.Num != mysql.ERUnknownError {
			return s.complete(known)
		}
	}
	return s.fromText(known.Message)
}

// complete rewords and gives a SQLSTATE to an error that has its number.
func (s Statement) complete(e *mysql.SQLError) *mysql.SQLError {
	if r := s.fromKinds(e.Message); r != nil && r.Num == e.Num {
		return r
	}
	state := e.State
	if state == "" || state == mysql.SSUnknownSQLState {
		state = State(uint16(e.Num))
	}
	return &mysql.SQLError{Num: e.Num, State: state, Message: e.Message}
}

// Coded is implemented by errors of our own packages that know their number;
// Error is then the text for the client.
type Coded interface {
	error
	MySQLCode() uint16
}

// fromOwn translates the typed errors of our own packages, and cancellation.
func fromOwn(err error) *mysql.SQLError {
	var wrongValue *config.ErrWrongValue
	var coded Coded
	switch {
	case errors.As(err, &coded):
		return Newf(coded.MySQLCode(), "%s", coded.Error())
	case kv.IsWriteConflict(err):
		return New(errno.ErrLockDeadlock)
	case errors.Is(err, kv.ErrTxnTooLarge):
		return New(errno.ErrTxnTooLarge)
	case errors.Is(err, kv.ErrSnapshotTooOld):
		return Newf(errno.ErrGCTooEarly, "GC life time is shorter than transaction duration")
	case errors.Is(err, kv.ErrClosed):
		return New(errno.ErrServerShutdown)
	case errors.Is(err, context.Canceled):
		return New(errno.ErrQueryInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		return Newf(erQueryTimeout, queryTimeoutText)
	case errors.As(err, &wrongValue):
		return New(errno.ErrWrongValueForVar, wrongValue.Name, wrongValue.Value)
	}
	return nil
}

const queryTimeoutText = "Query execution was interrupted, maximum statement execution time exceeded"

// fromTerror translates the errors of TiDB's libraries: their code is the MySQL
// or TiDB number if the table of numbers knows it.
func fromTerror(err error) *mysql.SQLError {
	var te *pingcap.Error
	if !errors.As(err, &te) {
		var ok bool
		if te, ok = pingcap.Cause(err).(*pingcap.Error); !ok {
			return nil
		}
	}
	return numbered(int(te.Code()), te.GetMsg())
}

func numbered(code int, msg string) *mysql.SQLError {
	number := uint16(errno.ErrUnknown)
	if _, ok := errno.MySQLErrName[uint16(code)]; ok && code > 0 && code <= 0xffff {
		number = uint16(code)
	}
	if r, ok := rewordings[number]; ok {
		msg = r.tidb.ReplaceAllString(msg, r.mysql)
	}
	return Newf(number, "%s", msg)
}

// rewordings turns texts that TiDB words in its own way into MySQL's.
var rewordings = map[uint16]struct {
	tidb  *regexp.Regexp
	mysql string
}{
	errno.ErrTableExists: {regexp.MustCompile(`^Table '[^'.]+\.([^']+)' already exists$`), "Table '$1' already exists"},
	errno.ErrTooLongKey:  {regexp.MustCompile(`^Specified key was too long \(\d+ bytes\)`), "Specified key was too long"},
}

var (
	// sqlErrorText is how a vitess SQLError prints: what is left of one that
	// go-mysql-server has wrapped.
	sqlErrorText = regexp.MustCompile(`(?s)^(?:unknown error: )?(.*) \(errno ([0-9]+)\) \(sqlstate ([0-9A-Z]{5})\)`)
	// writeConflictText is how a kv.WriteConflictError prints, wrapped or not.
	writeConflictText = regexp.MustCompile(`(?:^|: )kv: write conflict: key [0-9a-f]* was committed at `)
	// terrorText is how an error of TiDB's libraries prints.
	terrorText = regexp.MustCompile(`(?s)^\[\w+:(\d+)\](.*)$`)
)

// fromText recovers an error from its text.
func (s Statement) fromText(text string) *mysql.SQLError {
	if m := sqlErrorText.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[2]); err == nil {
			return &mysql.SQLError{Num: n, State: m[3], Message: m[1]}
		}
	}
	if m := terrorText.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return numbered(n, m[2])
		}
	}
	if e := s.fromKinds(text); e != nil {
		return e
	}
	if e := s.fromPlainText(text); e != nil {
		return e
	}
	return Newf(errno.ErrUnknown, "%s", text)
}

// fromPlainText recognises errors that have no type at all, or whose type was
// lost on the way through go-mysql-server.
func (s Statement) fromPlainText(text string) *mysql.SQLError {
	switch {
	case strings.HasPrefix(text, "syntax error"):
		return syntaxFromText(s.Text, text)
	case strings.HasSuffix(text, context.Canceled.Error()), strings.HasPrefix(text, "connection was closed"):
		return New(errno.ErrQueryInterrupted)
	case strings.HasSuffix(text, context.DeadlineExceeded.Error()):
		return Newf(erQueryTimeout, queryTimeoutText)
	case writeConflictText.MatchString(text):
		return New(errno.ErrLockDeadlock)
	case strings.HasSuffix(text, kv.ErrTxnTooLarge.Error()):
		return New(errno.ErrTxnTooLarge)
	case strings.HasPrefix(text, "invalid arguments. expected:"), strings.HasPrefix(text, "bind variable not provided"):
		return New(errno.ErrWrongArguments, "EXECUTE")
	}
	return nil
}
