package sql

import (
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
)

// BeginStatement begins a statement of a client's session, and does not execute it.
func BeginStatement(se sessiontypes.Session, stmt ast.StmtNode) (end func()) {
	return se.(*clientSession).begin(stmt)
}

// SetClock sets the clock by which transactions are over whose clients do not know their end.
func (l *Layer) SetClock(now func() time.Time) {
	l.clients.mu.Lock()
	defer l.clients.mu.Unlock()
	l.clients.now = now
}

// BeginAdding registers a statement of a client's session that adds rows, and does not execute it.
func BeginAdding(se sessiontypes.Session, stmt ast.StmtNode) (end func(), err error) {
	return se.(*clientSession).beginAdding(stmt)
}
