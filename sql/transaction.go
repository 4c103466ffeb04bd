package sql

import (
	"context"
	"errors"
	"strings"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/catalog"
	"fastddl/ddl/mdl"
	"fastddl/kv"
	"fastddl/sql/sqlerr"
	"fastddl/table"
)

// transaction is a SQL transaction. It costs nothing until the first statement
// that names a table: that pins a snapshot of the data together with the schema
// that describes it, and both stay for the rest of the transaction. The metadata
// lock is taken by the first write.
type transaction struct {
	session  *Session
	readOnly bool

	// All below is set by pin and cleared by unpin.

	schema *catalog.InfoSchema
	txn    kv.Txn
	lock   *mdl.Lock
	// bound holds the version under which each table is written.
	bound map[int64]*catalog.Table
	// pinnedBy is the command that pinned the snapshot.
	pinnedBy uint64

	savepoints []savepoint
	// iters are the row iterators that are open; they hold resources of the
	// store, and go-mysql-server does not close them after every error.
	iters map[*rowIter]struct{}
	// reads says that the running command has begun to read rows. If it has by
	// its first write, it writes to buffer; writer is the one of the two.
	reads  bool
	buffer *statementBuffer
	writer kv.Txn
	// locked says that rows were read for update.
	locked bool
	// added counts the rows inserted less those deleted, by table. It is not
	// exact (undone statements stay counted) and feeds estimates only.
	added map[int64]int64
}

type savepoint struct {
	name string
	at   kv.Checkpoint
}

var _ gms.Transaction = (*transaction)(nil)

// String implements sql.Transaction.
func (t *transaction) String() string { return "transaction" }

// IsReadOnly implements sql.Transaction.
func (t *transaction) IsReadOnly() bool { return t.readOnly }

// maxPinAttempts bounds how often pin starts over because the schema changed
// under it.
const maxPinAttempts = 100

// pin takes the schema and a snapshot that fit together: no schema version was
// published between the two, so every index that is public in the schema is
// complete in the snapshot.
func (t *transaction) pin(ctx context.Context) error {
	if t.txn != nil {
		return nil
	}
	cat := t.session.engine.catalog
	for range maxPinAttempts {
		schema := cat.Current()
		txn, err := cat.Store().Begin(ctx)
		if err != nil {
			return err
		}
		if cat.Current() == schema {
			t.schema, t.txn, t.pinnedBy = schema, txn, t.session.command
			return nil
		}
		if err := txn.Rollback(); err != nil {
			return err
		}
	}
	return errors.New("schema changes too fast to begin a transaction")
}

// unpin ends the underlying transaction; a statement that comes later pins a
// new one.
func (t *transaction) unpin() {
	t.closeIters()
	if t.lock != nil {
		t.lock.Release()
	}
	*t = transaction{session: t.session, readOnly: t.readOnly}
}

// restart forgets the snapshot, and nothing else: savepoints set before it are
// at the transaction's beginning.
func (t *transaction) restart() error {
	savepoints := t.savepoints
	err := t.rollback()
	for i := range savepoints {
		savepoints[i].at = 0
	}
	t.savepoints = savepoints
	return err
}

func (t *transaction) closeIters() {
	for it := range t.iters {
		// The statement is over; whatever reading could still fail with does
		// not matter any more.
		_ = it.close()
	}
}

func (t *transaction) commit(ctx context.Context) error {
	if t.txn == nil {
		return nil
	}
	defer t.unpin()
	t.closeIters()
	if t.txn.Len() == 0 && !t.locked {
		return t.txn.Rollback()
	}
	if err := t.txn.Commit(ctx); err != nil {
		return err
	}
	t.session.engine.stats.add(t.added)
	return nil
}

// endCommand forgets what belongs to one command.
func (t *transaction) endCommand() {
	t.closeIters()
	t.reads, t.buffer, t.writer = false, nil, nil
}

// statementWriter returns where the running statement writes to.
func (t *transaction) statementWriter() kv.Txn {
	if t.writer == nil {
		t.writer = t.txn
		if t.reads {
			t.buffer = newStatementBuffer(t.txn)
			t.writer = t.buffer
		}
	}
	return t.writer
}

// flush ends a statement's writing.
func (t *transaction) flush() error {
	if t.buffer == nil {
		return nil
	}
	return t.buffer.flush()
}

func (t *transaction) count(tableID, n int64) {
	if t.added == nil {
		t.added = make(map[int64]int64, 1)
	}
	t.added[tableID] += n
}

func (t *transaction) rollback() error {
	if t.txn == nil {
		return nil
	}
	defer t.unpin()
	t.closeIters()
	return t.txn.Rollback()
}

// bind returns the table as the transaction writes it: in the schema version
// that was current when it first wrote to the table. def is the version that
// the statement was planned with.
func (t *transaction) bind(ctx *gms.Context, def *tableDef) (*table.Table, error) {
	if t.readOnly {
		return nil, sqlerr.New(errno.ErrCantExecuteInReadOnlyTransaction)
	}
	id := def.info.ID
	bound, ok := t.bound[id]
	if !ok {
		if t.lock == nil {
			t.lock = t.session.engine.locks.Begin(t.session.lockOwner(ctx))
			t.txn.SetCommitCheck(t.lock.CheckCommit)
		}
		var err error
		if bound, err = t.lock.Bind(id); err != nil {
			return nil, t.session.schemaChanged()
		}
		if t.bound == nil {
			t.bound = make(map[int64]*catalog.Table, 1)
		}
		t.bound[id] = bound
	}
	if bound != def.catalog && !sameRow(bound.Info, def.info) {
		return nil, t.session.schemaChanged()
	}
	return table.Of(bound), nil
}

// rowFlags are the column flags that a statement's treatment of a row depends
// on. The others say which columns are indexed.
const rowFlags = mysql.NotNullFlag | mysql.PriKeyFlag | mysql.AutoIncrementFlag | mysql.UnsignedFlag

// sameRow says whether the rows of two versions of a table look the same to a
// statement.
func sameRow(a, b *model.TableInfo) bool {
	x, y := table.VisibleColumns(a), table.VisibleColumns(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].ID != y[i].ID || x[i].Name.L != y[i].Name.L || !x[i].FieldType.Equal(&y[i].FieldType) ||
			x[i].GetFlag()&rowFlags != y[i].GetFlag()&rowFlags {
			return false
		}
	}
	return a.PKIsHandle == b.PKIsHandle && a.IsCommonHandle == b.IsCommonHandle
}

// readable says whether the transaction may read through an index of the table
// it has pinned. Once it writes the table under a newer version, an index that
// this version does not maintain lacks the transaction's own rows.
func (t *transaction) readable(tableID, indexID int64) bool {
	bound, ok := t.bound[tableID]
	if !ok {
		return true
	}
	for _, idx := range bound.Info.Indices {
		if idx.ID == indexID {
			return idx.State != model.StateDeleteOnly && idx.State != model.StateNone &&
				idx.State != model.StateDeleteReorganization
		}
	}
	return false
}

func (t *transaction) createSavepoint(name string) {
	t.releaseSavepoint(name)
	var at kv.Checkpoint
	if t.txn != nil {
		at = t.txn.Checkpoint()
	}
	t.savepoints = append(t.savepoints, savepoint{name, at})
}

func (t *transaction) findSavepoint(name string) int {
	for i, s := range t.savepoints {
		if strings.EqualFold(s.name, name) {
			return i
		}
	}
	return -1
}

func (t *transaction) rollbackToSavepoint(name string) error {
	i := t.findSavepoint(name)
	if i < 0 {
		return gms.ErrSavepointDoesNotExist.New(name)
	}
	if t.txn != nil {
		t.txn.RevertTo(t.savepoints[i].at)
	}
	t.savepoints = t.savepoints[:i+1]
	return nil
}

// releaseSavepoint says whether there was one of that name.
func (t *transaction) releaseSavepoint(name string) bool {
	i := t.findSavepoint(name)
	if i < 0 {
		return false
	}
	t.savepoints = append(t.savepoints[:i], t.savepoints[i+1:]...)
	return true
}

// lockOwner describes the session to those who wait for its transaction.
func (s *Session) lockOwner(ctx *gms.Context) mdl.Owner {
	id := s.ID()
	kill := func() {
		ctx.ProcessList.Kill(id)
		// A connection that is gone already needs no closing.
		_ = ctx.KillConnection(id)
	}
	return mdl.Owner{
		ConnID:  uint64(id),
		Started: time.Now(),
		SQL:     s.Statement,
		Idle:    s.activity.idle,
		Kill:    kill,
		KillIdle: func(atLeast time.Duration) bool {
			if !s.activity.killIdle(atLeast) {
				return false
			}
			kill()
			return true
		},
	}
}
