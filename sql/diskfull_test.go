package sql

import (
	"errors"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestDiskFullHasItsNumber: a write that has no room fails with MySQL's number, whatever TiDB and
// client-go have made of the store's answer.
func TestDiskFullHasItsNumber(t *testing.T) {
	err := numbered(errors.New("tikv aborts txn: " + (&kv.DiskFullError{Free: 18 << 20, Needed: 37 << 20}).Error()))
	te := job.FindTerror(err)
	require.NotNil(t, te)
	shown := terror.ToSQLError(te)
	require.EqualValues(t, mysql.ErrDiskFull, shown.Code)
	require.Equal(t, "disk is full: 18 MiB are free, writes need 37 MiB; deletions go on", shown.Message)

	other := errors.New("something else")
	require.Equal(t, other, numbered(other))
	require.NoError(t, numbered(nil))
}
