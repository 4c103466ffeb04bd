package sql

import (
	"context"
	"errors"
	"fmt"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/kv"
)

// brokenRows are rows that fail wherever they can.
type brokenRows struct {
	sqlexec.RecordSet
	err     error
	fetches int
}

func (r *brokenRows) Next(context.Context, *chunk.Chunk) error { return r.err }
func (r *brokenRows) Close() error                             { return r.err }
func (r *brokenRows) Finish() error                            { return r.err }
func (r *brokenRows) OnFetchReturned()                         { r.fetches++ }

func (r *brokenRows) TryDetach() (sqlexec.RecordSet, bool, error) {
	return &brokenRows{err: r.err}, true, nil
}

// TestErrorsOfRowsHaveTheirNumbers: the part of a statement that runs when its rows are fetched, or closed, fails with the
// same numbers as the rest.
func TestErrorsOfRowsHaveTheirNumbers(t *testing.T) {
	full := errors.New("tikv aborts txn: " + (&kv.DiskFullError{Free: 18 << 20, Needed: 37 << 20}).Error())
	number := func(err error) uint16 {
		te := job.FindTerror(err)
		require.NotNil(t, te, "%v", err)
		return terror.ToSQLError(te).Code
	}
	broken := &brokenRows{err: full}
	ended := 0
	rows := &clientRows{RecordSet: broken, killed: new(sqlkiller.SQLKiller).HandleSignal, end: func() { ended++ }}
	detached, ok, err := rows.TryDetach()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, ended, "rows that are fetched later are no running statement")
	rows.OnFetchReturned()
	require.Equal(t, 1, broken.fetches)
	for name, rs := range map[string]sqlexec.RecordSet{"rows": rows, "detached": detached} {
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.Next(t.Context(), nil)), name)
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.(interface{ Finish() error }).Finish()), name)
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.Close()), name)
	}
	require.Equal(t, 1, ended)
}

// TestOtherErrorsKeepTheirNumbers: what a user has written may read like a refusal of the store.
func TestOtherErrorsKeepTheirNumbers(t *testing.T) {
	killer := new(sqlkiller.SQLKiller)
	for _, refusal := range []error{kv.ErrDiskFull, kv.ErrTooManyLocks, kv.ErrTxnTooLarge} {
		duplicate := fmt.Errorf("insert: %w", tidbkv.ErrKeyExists.FastGenByArgs(refusal.Error(), "t.k"))
		require.Equal(t, duplicate, numbered(duplicate, killer.HandleSignal))
		unnumbered := dbterror.ClassDDL.Synthesize(terror.CodeUnknown, "tikv aborts txn: "+refusal.Error())
		require.NotEqual(t, unnumbered, numbered(unnumbered, killer.HandleSignal), "as TiDB's DDL jobs keep it")
	}
}
