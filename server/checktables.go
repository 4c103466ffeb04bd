package server

import (
	"context"
	"fmt"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/util/sqlescape"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/internal/errs"
)

// tablesToCheck are all tables with rows, and whether one of a table's indexes is over an expression.
const tablesToCheck = `SELECT table_schema, table_name, EXISTS (SELECT 1 FROM information_schema.tidb_indexes i
	WHERE i.table_schema = t.table_schema AND i.table_name = t.table_name AND i.expression IS NOT NULL)
	FROM information_schema.tables t WHERE table_type = 'BASE TABLE' ORDER BY table_schema, table_name`

// CheckTables opens the node that the options describe, without listeners and index builds, compares each of its tables with its indexes, and
// closes the node. It returns the number of tables; begin is called for each. It fails at the first that is wrong.
func CheckTables(ctx context.Context, opts NodeOptions, begin func(db, table string)) (n int, err error) {
	opts.WithoutBuilds = true
	node, err := newNode(opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errs.Combine(err, node.Close()) }()
	defer errs.Contain(&err)
	if err := node.open(ctx); err != nil {
		return 0, err
	}
	se, err := session.CreateSession(node.store.storage)
	if err != nil {
		return 0, err
	}
	defer se.Close()
	ctx = tidbkv.WithInternalSourceType(ctx, tidbkv.InternalTxnOthers)
	rows, _, err := se.GetRestrictedSQLExecutor().ExecRestrictedSQL(ctx, nil, tablesToCheck)
	if err != nil {
		return 0, fmt.Errorf("list tables: %w", err)
	}
	for _, row := range rows {
		db, table := row.GetString(0), row.GetString(1)
		begin(db, table)
		// The fast way does not look at what entries say of expressions.
		ways := []string{"ON"}
		if row.GetInt64(2) != 0 {
			ways = append(ways, "OFF")
		}
		for _, fast := range ways {
			if err := checkTable(ctx, se, db, table, fast); err != nil {
				return n, fmt.Errorf("ADMIN CHECK TABLE %s.%s: %w", db, table, err)
			}
		}
		n++
	}
	return n, nil
}

// checkTable compares one table with its indexes.
func checkTable(ctx context.Context, se sessiontypes.Session, db, table, fast string) error {
	check, err := sqlescape.EscapeSQL("ADMIN CHECK TABLE %n.%n", db, table)
	if err != nil {
		return err
	}
	for _, statement := range []string{"SET tidb_enable_fast_table_check = " + fast, check} {
		rows, err := se.ExecuteInternal(ctx, statement)
		if err != nil {
			return err
		}
		if rows == nil {
			continue
		}
		_, err = sqlexec.DrainRecordSet(ctx, rows, 1)
		if err := errs.Combine(err, rows.Close()); err != nil {
			return err
		}
	}
	return nil
}
