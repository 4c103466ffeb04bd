package sqlerr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	pingcap "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/kv"
	"fastddl/sql/sqlerr"
)

type codedError struct{}

func (codedError) Error() string     { return "Duplicate entry '1' for key 't.i'" }
func (codedError) MySQLCode() uint16 { return errno.ErrDupEntry }

// TestTranslate checks each error twice: typed, as in process, and flattened to
// its text as go-mysql-server hands it to the connection handler.
func TestTranslate(t *testing.T) {
	stmt := sqlerr.Statement{DB: "test", Text: "SELECT a FROM t WHERE b = 1"}
	for _, tc := range []struct {
		name   string
		err    error
		number int
		state  string
		text   string
	}{
		{"write conflict", fmt.Errorf("commit: %w", &kv.WriteConflictError{Key: []byte("k"), StartTS: 1, ConflictTS: 2}), 1213, "40001",
			"Deadlock found when trying to get lock; try restarting transaction"},
		{"killed", fmt.Errorf("scan: %w", context.Canceled), 1317, "70100", "Query execution was interrupted"},
		{"timeout", context.DeadlineExceeded, 3024, "HY000", "Query execution was interrupted, maximum statement execution time exceeded"},
		{"too large", fmt.Errorf("commit: %w", kv.ErrTxnTooLarge), 8004, "HY000", "Transaction is too large"},
		{"terror", dbterror.ErrCancelledDDLJob.GenWithStackByArgs(), 8214, "HY000", "Cancelled DDL job"},
		{"terror traced", pingcap.Trace(dbterror.ErrDupKeyName.GenWithStack("index already exist %s", "i")), 1061, "42000", "index already exist i"},
		{"terror wrapped", fmt.Errorf("run job: %w", dbterror.ErrCantDropFieldOrKey.GenWithStackByArgs("c")), 1091, "42000", "Can't DROP 'c'; check that column/key exists"},
		{"coded", fmt.Errorf("job 7: %w", codedError{}), 1062, "23000", "Duplicate entry '1' for key 't.i'"},
		{"own", sqlerr.New(errno.ErrKeyColumnDoesNotExits, "c"), 1072, "42000", "Key column 'c' doesn't exist in table"},
		{"clause given", sqlerr.New(errno.ErrBadField, "a", "order clause"), 1054, "42S22", "Unknown column 'a' in 'order clause'"},
		{"schema changed", sqlerr.Newf(errno.ErrInfoSchemaChanged, "Information schema is changed"), 8028, "HY000", "Information schema is changed"},
		{"own in a syntax error", gms.ErrSyntaxError.New(sqlerr.Syntax("bogus\nx", 6).Error()), 1064, "42000",
			"You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'x' at line 2"},
		{"duplicate entry", gms.NewUniqueKeyErr("'1-x' for key 't.PRIMARY'", true, gms.Row{1}), 1062, "23000", "Duplicate entry '1-x' for key 't.PRIMARY'"},
		{"duplicate entry in an insert", gms.NewWrappedInsertError(nil, gms.NewUniqueKeyErr("'a' for key 't.i'", false, nil)), 1062, "23000", "Duplicate entry 'a' for key 't.i'"},
		{"too long", gms.NewWrappedInsertError(nil, types.ErrLengthBeyondLimit.New("it's", "s")), 1406, "22001", "Data too long for column 's' at row 1"},
		{"quoted", gms.ErrColumnNotFound.New(`b`), 1054, "42S22", "Unknown column 'b' in 'where clause'"},
		{"unknown", errors.New("something odd"), 1105, "HY000", "something odd"},
		{"table exists", dbterror.ClassSchema.NewStd(errno.ErrTableExists).FastGenByArgs("test.t"), 1050, "42S01", "Table 't' already exists"},
		{"long key", dbterror.ErrTooLongKey.FastGenByArgs(4000, 3072), 1071, "42000", "Specified key was too long; max key length is 3072 bytes"},
		{"closed", fmt.Errorf("x: %w", kv.ErrClosed), 1053, "08S01", "Server shutdown in progress"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := stmt.Translate(tc.err)
			require.Equal(t, tc.number, got.Num)
			require.Equal(t, tc.state, got.State)
			require.Equal(t, tc.text, got.Message)
			require.Equal(t, got, stmt.Translate(got), "idempotent")

			if slices.Contains([]string{"coded", "terror wrapped", "closed"}, tc.name) {
				return // our layers translate these before they hand them on
			}
			flat := stmt.Translate(gms.CastSQLError(tc.err))
			require.Equal(t, got, flat, "flattened")
		})
	}
	require.Nil(t, sqlerr.Translate(nil))
	var wrong *config.ErrWrongValue
	_, _, err := (&config.SysVar{Name: "v", Kind: config.KindInt}).Normalize("x")
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Variable 'v' can't be set to the value of 'x' (errno 1231) (sqlstate 42000)", sqlerr.Translate(err).Error())
	require.Equal(t, vitess.ERUnknownError, sqlerr.Translate(io.ErrUnexpectedEOF).Num)
}

func TestSyntax(t *testing.T) {
	const head = "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near "
	for _, tc := range []struct{ query, near string }{
		{"select 1 from where", "'where' at line 1"},
		{"select\n*\nfron t where a = 'x'", "'fron t where a = 'x'' at line 3"},
		{"select * from t where", "'' at line 1"},
		{"create tabl t (a int)", "'tabl t (a int)' at line 1"},
		{"create table t (a int", "'' at line 1"},
		{"alter table t add index i (a),\n,", "',' at line 2"},
		{"alter table t add index (" + fmt.Sprintf("%0200d", 7) + ")", "'" + fmt.Sprintf("%0200d", 7)[:80] + "' at line 1"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			var err error
			if tc.query[0] == 's' {
				_, err = sqlparser.Parse(tc.query)
				require.Error(t, err)
				err = sqlerr.FromVitess(tc.query, err)
			} else {
				_, err = parser.New().ParseOneStmt(tc.query, "", "")
				require.Error(t, err)
				err = sqlerr.FromTiDB(tc.query, err)
			}
			var got *vitess.SQLError
			require.ErrorAs(t, err, &got)
			require.Equal(t, 1064, got.Num)
			require.Equal(t, "42000", got.State)
			require.Equal(t, head+tc.near, got.Message)
		})
	}
}
