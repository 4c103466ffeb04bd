package fuzz

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// TestLazyChecksAndUpdateIgnore shows a fault of TiDB's that TestRandomTransactions avoids. A transaction whose
// unique indexes are checked at the commit marks the entries that it has yet to check
// (NeedConstraintCheckInPrewrite). UPDATE IGNORE of such a row deletes the entry in its buffer, which removes the mark.
// When it then ignores the row it restores the entry without the mark: client-go does not roll marks back.
// The entry overwrites one that another transaction has committed.
func TestLazyChecksAndUpdateIgnore(t *testing.T) {
	db := servertest.Start(t, program, t.TempDir()).Open("test")
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	execAll(t, conn,
		"CREATE TABLE p (id INT PRIMARY KEY, u INT, UNIQUE KEY u (u))",
		"INSERT INTO p VALUES (3, 30), (4, 1)",
		"SET tidb_constraint_check_in_place_pessimistic = OFF",
		"BEGIN PESSIMISTIC",
		"UPDATE p SET u = 2 WHERE id = 3",
		"UPDATE IGNORE p SET u = 1 WHERE id = 3",
	)
	_, err = db.Exec("INSERT INTO p VALUES (24, 2)")
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "COMMIT")
	require.NoError(t, err, "TiDB is better now: let TestRandomTransactions do it, and say so in docs/upstream-bugs.md")
	_, err = db.Exec("ADMIN CHECK TABLE p")
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 8223, e.Number)
}
