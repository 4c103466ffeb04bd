package sql

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"fastddl/config"
	"fastddl/ddl/mdl"
	"fastddl/kv"
	"fastddl/sql/sqlerr"
	"fastddl/sql/sqltype"
	"fastddl/sql/stmt"
	"fastddl/sql/sysvar"
)

// Session is one client's session. It is used by one goroutine at a time,
// except for Statement and activity.
type Session struct {
	*gms.BaseSession
	engine *Engine

	// autocommit and location mirror the session variables autocommit and
	// time_zone, which are looked at all the time.
	autocommit bool
	location   *time.Location

	// command counts the commands of the connection.
	command uint64
	// retry says that the running command failed for a reason that goes away
	// when it is run again in a new transaction.
	retry bool
	// locking says that the running statement reads for update, showing that it
	// asks for definitions.
	locking, showing bool
	statement        atomic.Pointer[string]
	activity         activity
}

var (
	_ gms.Session               = (*Session)(nil)
	_ gms.TransactionSession    = (*Session)(nil)
	_ gms.LifecycleAwareSession = (*Session)(nil)
	_ sqltype.Located           = (*Session)(nil)
	_ stmt.Session              = (*Session)(nil)
	_ sysvar.Session            = (*Session)(nil)
)

// NewSession returns a session of the engine over a base session.
func (e *Engine) NewSession(base *gms.BaseSession) *Session {
	s := &Session{BaseSession: base, engine: e}
	s.loadAutocommit()
	s.loadLocation()
	return s
}

// SessionBuilder makes the sessions of server connections. It is a
// server.SessionBuilder.
func (e *Engine) SessionBuilder(ctx context.Context, conn *mysql.Conn, addr string) (gms.Session, error) {
	base, err := gms.BaseSessionFromConnection(ctx, conn, addr)
	if err != nil {
		return nil, err
	}
	return e.NewSession(base), nil
}

var errNotOurs = errors.New("session does not belong to this engine")

// sessionOf returns the session of a context of this engine.
func sessionOf(ctx *gms.Context) (*Session, error) {
	s, ok := ctx.Session.(*Session)
	if !ok {
		return nil, errNotOurs
	}
	return s, nil
}

// Location implements sqltype.Located.
func (s *Session) Location() *time.Location { return s.location }

// ReorgPriority implements stmt.Session.
func (s *Session) ReorgPriority() string {
	v, err := s.BaseSession.GetSessionVariable(nil, config.ReorgPriority)
	if text, ok := v.(string); ok && err == nil {
		return text
	}
	return config.PriorityLow
}

// Statement returns the text of the current or last statement. It may be called
// from any goroutine.
func (s *Session) Statement() string {
	if p := s.statement.Load(); p != nil {
		return *p
	}
	return ""
}

// SetLocking marks the running statement as one that reads for update.
func (s *Session) SetLocking(locking bool) { s.locking = locking }

// GetPreparedQuery implements sql.Session. Prepared statements do not pass the
// parser again, so what the parser says about a statement is said here.
func (s *Session) GetPreparedQuery(query string) (sqlparser.Statement, bool) {
	prepared, ok := s.BaseSession.GetPreparedQuery(query)
	if !ok {
		return nil, false
	}
	if stmt.Locks(prepared) {
		s.locking = true
	}
	if _, show := prepared.(*sqlparser.Show); show {
		s.showing = true
	}
	return prepared, true
}

// PrepareQuery implements sql.Session. The statement of COM_STMT_PREPARE has not
// passed our parser.
func (s *Session) PrepareQuery(query string, prepared sqlparser.Statement) {
	if containsFold(query, mdlViewName) {
		redirectMDLView(prepared, s.GetCurrentDatabase())
	}
	s.BaseSession.PrepareQuery(query, prepared)
}

// ValidateSession implements sql.Session. It is called once for every statement.
func (s *Session) ValidateSession(ctx *gms.Context) error {
	query := ctx.Query()
	s.statement.Store(&query)
	return nil
}

// SysVars implements sysvar.Session.
func (s *Session) SysVars() *sysvar.Vars { return s.engine.vars }

// GetAllSessionVariables implements sql.Session.
func (s *Session) GetAllSessionVariables() map[string]any {
	vars := s.BaseSession.GetAllSessionVariables()
	s.engine.vars.RefreshGlobals(vars)
	return vars
}

// SetSessionVariable implements sql.Session.
func (s *Session) SetSessionVariable(ctx *gms.Context, name string, value any) error {
	if err := s.BaseSession.SetSessionVariable(ctx, name, value); err != nil {
		return err
	}
	return s.variableChanged(ctx, name)
}

// InitSessionVariable implements sql.Session.
func (s *Session) InitSessionVariable(ctx *gms.Context, name string, value any) error {
	if err := s.BaseSession.InitSessionVariable(ctx, name, value); err != nil {
		return err
	}
	return s.variableChanged(ctx, name)
}

// InitSessionVariableDefault implements sql.Session.
func (s *Session) InitSessionVariableDefault(ctx *gms.Context, name string, value any) error {
	if err := s.BaseSession.InitSessionVariableDefault(ctx, name, value); err != nil {
		return err
	}
	return s.variableChanged(ctx, name)
}

func (s *Session) variableChanged(ctx *gms.Context, name string) error {
	switch strings.ToLower(name) {
	case gms.AutoCommitSessionVar:
		was := s.autocommit
		s.loadAutocommit()
		if s.autocommit && !was {
			// MySQL commits what is open when autocommit is switched on.
			return s.commitOpen(ctx)
		}
	case "time_zone":
		s.loadLocation()
	}
	return nil
}

func (s *Session) loadAutocommit() {
	v, err := s.BaseSession.GetSessionVariable(nil, gms.AutoCommitSessionVar)
	if err != nil {
		s.autocommit = true
		return
	}
	on, err := gms.ConvertToBool(gms.NewEmptyContext(), v)
	s.autocommit = err != nil || on
}

func (s *Session) loadLocation() {
	s.location = time.Local
	v, err := s.BaseSession.GetSessionVariable(nil, "time_zone")
	if err != nil {
		return
	}
	if name, ok := v.(string); ok {
		s.location = parseLocation(name)
	}
}

// explicit says whether the open transaction was begun by the client, or stays
// open because autocommit is off.
func (s *Session) explicit() bool { return s.GetIgnoreAutoCommit() || !s.autocommit }

func (s *Session) current() *transaction {
	t, _ := s.BaseSession.GetTransaction().(*transaction)
	return t
}

// begun returns the session's transaction with a pinned snapshot.
func (s *Session) begun(ctx *gms.Context) (*transaction, error) {
	t := s.current()
	if t == nil {
		t = &transaction{session: s}
		s.BaseSession.SetTransaction(t)
	}
	if err := t.pin(ctx); err != nil {
		return nil, sqlerr.Translate(err)
	}
	return t, nil
}

// SetTransaction implements sql.Session. A transaction that is replaced has
// ended, however go-mysql-server came to think so.
func (s *Session) SetTransaction(tx gms.Transaction) {
	if t := s.current(); t != nil && tx != gms.Transaction(t) {
		s.abandon(t)
	}
	s.BaseSession.SetTransaction(tx)
}

// StartTransaction implements sql.TransactionSession.
func (s *Session) StartTransaction(_ *gms.Context, characteristic gms.TransactionCharacteristic) (gms.Transaction, error) {
	return &transaction{session: s, readOnly: characteristic == gms.ReadOnly}, nil
}

// CommitTransaction implements sql.TransactionSession. Whether it succeeds or
// not, the transaction is over.
func (s *Session) CommitTransaction(ctx *gms.Context, tx gms.Transaction) error {
	t, ok := tx.(*transaction)
	if !ok {
		return errNotOurs
	}
	implicit := !s.explicit()
	err := t.commit(ctx)
	if err == nil {
		return nil
	}
	s.retry = implicit && (kv.IsWriteConflict(err) || mdl.ErrSchemaChanged.Equal(err))
	s.BaseSession.SetTransaction(nil)
	s.SetIgnoreAutoCommit(false)
	return sqlerr.Translate(err)
}

// Rollback implements sql.TransactionSession.
func (s *Session) Rollback(_ *gms.Context, tx gms.Transaction) error {
	t, ok := tx.(*transaction)
	if !ok {
		return errNotOurs
	}
	return t.rollback()
}

// CreateSavepoint implements sql.TransactionSession.
func (s *Session) CreateSavepoint(_ *gms.Context, tx gms.Transaction, name string) error {
	t, ok := tx.(*transaction)
	if !ok {
		return errNotOurs
	}
	t.createSavepoint(name)
	return nil
}

// RollbackToSavepoint implements sql.TransactionSession.
func (s *Session) RollbackToSavepoint(_ *gms.Context, tx gms.Transaction, name string) error {
	t, ok := tx.(*transaction)
	if !ok {
		return errNotOurs
	}
	return t.rollbackToSavepoint(name)
}

// ReleaseSavepoint implements sql.TransactionSession.
func (s *Session) ReleaseSavepoint(_ *gms.Context, tx gms.Transaction, name string) error {
	t, ok := tx.(*transaction)
	if !ok {
		return errNotOurs
	}
	if !t.releaseSavepoint(name) {
		return gms.ErrSavepointDoesNotExist.New(name)
	}
	return nil
}

// CommitImplicitly commits whatever is open, as MySQL does before a statement
// that changes schemas, and leaves no transaction.
func (s *Session) CommitImplicitly(ctx *gms.Context) error {
	err := s.commitOpen(ctx)
	s.SetIgnoreAutoCommit(false)
	return err
}

func (s *Session) commitOpen(ctx *gms.Context) error {
	t := s.current()
	if t == nil {
		return nil
	}
	if err := s.CommitTransaction(ctx, t); err != nil {
		return err
	}
	s.BaseSession.SetTransaction(nil)
	return nil
}

// schemaChanged is the error of a statement whose table is not any more what it
// was planned for. The statement is run again if nothing but itself depends on
// its snapshot.
func (s *Session) schemaChanged() error {
	if t := s.current(); t != nil && t.pinnedBy == s.command {
		s.retry = true
	}
	return sqlerr.Translate(mdl.ErrSchemaChanged.FastGenByArgs())
}

// CommandBegin implements sql.LifecycleAwareSession.
func (s *Session) CommandBegin() error {
	s.command++
	s.retry, s.locking, s.showing = false, false, false
	return s.activity.begin()
}

// CommandEnd implements sql.LifecycleAwareSession. It repairs what
// go-mysql-server leaves behind: iterators that it did not close, the
// transaction of an autocommit statement that failed, and the mark of an
// explicit transaction after an implicit commit.
func (s *Session) CommandEnd() {
	defer s.activity.end()
	t := s.current()
	if t == nil {
		s.SetIgnoreAutoCommit(false)
		return
	}
	t.endCommand()
	switch {
	case !s.explicit():
		s.abandon(t)
		s.BaseSession.SetTransaction(nil)
	case s.retry:
		s.abandonSnapshot(t)
	}
}

// SessionEnd implements sql.LifecycleAwareSession.
func (s *Session) SessionEnd() {
	if t := s.current(); t != nil {
		s.abandon(t)
		s.BaseSession.SetTransaction(nil)
	}
}

// abandon ends a transaction that nobody waits for.
func (s *Session) abandon(t *transaction) {
	if err := t.rollback(); err != nil {
		s.GetLogger().WithError(err).Warn("roll back abandoned transaction")
	}
}

func (s *Session) abandonSnapshot(t *transaction) {
	if err := t.restart(); err != nil {
		s.GetLogger().WithError(err).Warn("roll back for a statement's retry")
	}
}
