package builder

import (
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	contextutil "github.com/pingcap/tidb/pkg/util/context"

	"fastddl/generated"
)

// Env is what a definition depends on besides the statement's text.
type Env struct {
	SQLMode mysql.SQLMode
	// Loc is the session's time zone; nil is UTC.
	Loc *time.Location
	// Now is the time of the statement, for columns added with a default of
	// CURRENT_TIMESTAMP.
	Now time.Time
	// ClusteredIndex says whether a primary key without CLUSTERED or
	// NONCLUSTERED is clustered.
	ClusteredIndex bool
	// Expressions understands the expressions of generated columns; nil refuses
	// them.
	Expressions generated.Compiler
	// Collation is the session's collation, for text in expressions that no column
	// gives a collation; empty is the server's.
	Collation string
	// Warnings collects what the client is to be told beside the result.
	Warnings []Warning
}

// Warning is a row of SHOW WARNINGS.
type Warning struct {
	// Level is Warning or Note.
	Level   string
	Code    uint16
	Message string
}

// Warn adds a warning.
func (e *Env) Warn(err error) { e.add("Warning", err) }

// Note adds a note.
func (e *Env) Note(err error) { e.add("Note", err) }

func (e *Env) add(level string, err error) {
	w := Warning{Level: level, Code: errno.ErrUnknown, Message: err.Error()}
	if te, ok := AsTerror(err); ok {
		w.Code, w.Message = uint16(te.Code()), te.GetMsg()
	}
	e.Warnings = append(e.Warnings, w)
}

func (e *Env) loc() *time.Location {
	if e.Loc == nil {
		return time.UTC
	}
	return e.Loc
}

// strict says that values that do not fit are errors.
func (e *Env) strict() bool { return e.SQLMode.HasStrictMode() }

// typeCtx is the context in which default values are converted: always
// strictly, so that a default that has to be cut is refused.
func (e *Env) typeCtx() types.Context {
	flags := types.StrictFlags.
		WithIgnoreZeroInDate(!e.SQLMode.HasNoZeroInDateMode() || e.SQLMode.HasAllowInvalidDatesMode()).
		WithIgnoreInvalidDateErr(e.SQLMode.HasAllowInvalidDatesMode()).
		WithIgnoreZeroDateErr(!e.SQLMode.HasNoZeroDateMode() || !e.strict())
	return types.NewContext(flags, e.loc(), contextutil.IgnoreWarn)
}

// checkComment refuses a comment that is too long, or cuts it when the SQL mode
// is not strict.
func (e *Env) checkComment(comment *string, name string, maxLength int, tooLong *terror.Error) error {
	if len(*comment) <= maxLength {
		return nil
	}
	err := tooLong.FastGenByArgs(name, maxLength)
	if e.strict() {
		return err
	}
	e.Warn(err)
	*comment = (*comment)[:maxLength]
	return nil
}
