package sql

import (
	"context"
	"errors"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/load/rows"
)

// loadedTable is a table for TiDB's executor of LOAD DATA: the rows that it adds go to an import instead of into its transaction.
type loadedTable struct {
	table.Table
	vars *variable.SessionVars
	feed *rows.Feed
	ctx  context.Context
}

// AddRecord implements table.Table. commitWorker in pkg/executor/load_data.go calls it, in the order of the file.
func (t *loadedTable) AddRecord(_ table.MutateContext, _ tidbkv.Transaction, row []types.Datum, _ ...table.AddRecordOption) (tidbkv.Handle, error) {
	if err := t.vars.SQLKiller.HandleSignal(); err != nil {
		return nil, err
	}
	if row == nil {
		return nil, t.unmade()
	}
	err := t.feed.Add(t.ctx, row)
	if table.ErrNoPartitionForGivenValue.Equal(err) || table.ErrRowDoesNotMatchGivenPartitionSet.Equal(err) {
		ec := t.vars.StmtCtx.ErrCtx()
		err = ec.HandleError(err)
	}
	return nil, err
}

// unmade is the error of a row that TiDB could not make. It has a warning of it, and goes on with a row of no values, which panics.
func (t *loadedTable) unmade() error {
	warnings := t.vars.StmtCtx.GetWarnings()
	if len(warnings) == 0 {
		return errors.New("a row of LOAD DATA could not be made")
	}
	return warnings[len(warnings)-1].Err
}
