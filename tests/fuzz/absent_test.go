package fuzz

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// TestReadCommittedRemembersAbsentRows shows what explains 8133 in transactions at READ
// COMMITTED: TiDB remembers that a row it was to lock by its key was absent, and does not
// lock it (pkg/executor/point_get.go:607). Once another transaction has inserted the row, it is
// found by the unique index, and is not there.
func TestReadCommittedRemembersAbsentRows(t *testing.T) {
	node := servertest.Start(t, program, t.TempDir())
	ctx := context.Background()
	db := node.Open("test")
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	execAll(t, conn,
		"CREATE TABLE p (id INT PRIMARY KEY, u INT, UNIQUE KEY u (u))",
		"SET SESSION transaction_isolation = 'READ-COMMITTED'",
		"BEGIN PESSIMISTIC",
		"SELECT * FROM p WHERE id = 23 FOR UPDATE",
	)
	_, err = db.Exec("INSERT INTO p VALUES (23, 19)")
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "SELECT * FROM p WHERE u IN (25, 19) FOR UPDATE")
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 8133, e.Number)
	require.NoError(t, conn.Close())
	_, err = db.Exec("ADMIN CHECK TABLE p")
	require.NoError(t, err)
}
