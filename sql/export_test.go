package sql

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
)

// BeginStatement begins a statement of a session that OpenSession has returned, and does not execute it.
func BeginStatement(se sessiontypes.Session, stmt ast.StmtNode) (end func()) {
	return se.(*localSession).begin(stmt)
}
