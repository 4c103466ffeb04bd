package sql

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pingcap/tidb/pkg/errno"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestStoreErrorsHaveMySQLCodes: an error of the embedded store reaches the client with its MySQL code, however TiDB and
// client-go have wrapped it.
func TestStoreErrorsHaveMySQLCodes(t *testing.T) {
	killer := new(sqlkiller.SQLKiller)
	err := withErrorCode(t.Context(), errors.New("tikv aborts txn: "+(&kv.DiskFullError{Free: 18 << 20, Needed: 37 << 20}).Error()), killer)
	te := job.FindTerror(err)
	require.NotNil(t, te)
	shown := terror.ToSQLError(te)
	require.EqualValues(t, mysql.ErrDiskFull, shown.Code)
	require.Equal(t, "disk is full: 18 MiB are free, writes need 37 MiB; deletions go on", shown.Message)

	err = withErrorCode(t.Context(), errors.New("tikv aborts txn: "+(&kv.TxnTooLargeError{Size: 120, Limit: 100}).Error()), killer)
	te = job.FindTerror(err)
	require.NotNil(t, te)
	require.True(t, tidbkv.ErrTxnTooLarge.Equal(err), "to TiDB it is its own")
	shown = terror.ToSQLError(te)
	require.EqualValues(t, errno.ErrTxnTooLarge, shown.Code)
	require.Equal(t, "transaction is too large: it has 120 bytes or more, the limit is 100", shown.Message)

	err = withErrorCode(t.Context(), errors.New("tikv aborts txn: "+(&kv.TooManyLocksError{Limit: 5 << 20}).Error()), killer)
	te = job.FindTerror(err)
	require.NotNil(t, te)
	shown = terror.ToSQLError(te)
	require.EqualValues(t, mysql.ErrLockTableFull, shown.Code)
	require.Equal(t, "too many locks: those of all transactions may hold 5 MiB of memory", shown.Message)

	other := errors.New("something else")
	require.Equal(t, other, withErrorCode(t.Context(), other, killer))
	require.NoError(t, withErrorCode(t.Context(), nil, killer))
	require.EqualError(t, withErrorCode(t.Context(), errors.Join(other, errors.New("more")), killer), other.Error()+"; more", "clients are shown one line")
}

// TestKilledStatementHasItsCode: a request that ended because its statement was killed says so. Where TiDB knows better what
// has happened, or the statement was not killed, the error is what it was.
func TestKilledStatementHasItsCode(t *testing.T) {
	cancelled := fmt.Errorf("rpc error: %w", context.Canceled)
	killer := new(sqlkiller.SQLKiller)
	require.Equal(t, cancelled, withErrorCode(t.Context(), cancelled, killer))
	killer.SendKillSignal(sqlkiller.MaxExecTimeExceeded)
	require.ErrorIs(t, withErrorCode(t.Context(), cancelled, killer), exeerrors.ErrMaxExecTimeExceeded)
	undetermined := terror.ErrResultUndetermined.FastGen("%v", cancelled)
	require.Equal(t, undetermined, withErrorCode(t.Context(), undetermined, killer))
	other := errors.New("something else")
	require.Equal(t, other, withErrorCode(t.Context(), other, killer))
}
