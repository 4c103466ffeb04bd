package sql

import (
	"context"
	"fmt"

	"github.com/pingcap/tidb/pkg/parser/ast"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
)

// In a transaction, TiDB plans the statements of a text that find a row by its key before it executes the first of them
// (prefetchPointPlanKeys in pkg/server/conn.go). When a statement of the text has ended the transaction, the metadata lock does
// not keep the tables as they were planned for, but the rest is still executed by those plans. After a DROP COLUMN an UPDATE
// then writes values into other columns. So these plans are forgotten with the transaction.

// Parse implements session.Session.
func (s *clientSession) Parse(ctx context.Context, text string) ([]ast.StmtNode, error) {
	s.parsedIn = s.startTS()
	stmts, err := s.Session.Parse(ctx, text)
	if err != nil {
		if known, ok := s.parseExplains(ctx, text); ok {
			return known, nil
		}
	}
	return stmts, err
}

// SetValue implements sessionctx.Context.
func (s *clientSession) SetValue(key fmt.Stringer, value any) {
	if key == plannercore.PointPlanKey {
		if now := s.startTS(); now == 0 || now != s.parsedIn {
			s.ClearValue(key)
			return
		}
	}
	s.Session.SetValue(key, value)
}

// startTS is the start of the transaction that is open, 0 if there is none.
func (s *clientSession) startTS() uint64 {
	txn, err := s.Txn(false)
	if err != nil || !txn.Valid() {
		return 0
	}
	return txn.StartTS()
}
