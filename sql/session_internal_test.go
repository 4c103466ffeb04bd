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
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/stretchr/testify/require"
	tikverr "github.com/tikv/client-go/v2/error"

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

// TestErrorsOfRowsHaveMySQLCodes: the part of a statement that runs when its rows are fetched, or closed, fails with the
// same numbers as the rest.
func TestErrorsOfRowsHaveMySQLCodes(t *testing.T) {
	full := errors.New("tikv aborts txn: " + (&kv.DiskFullError{Free: 18 << 20, Needed: 37 << 20}).Error())
	number := func(err error) uint16 {
		te := job.FindTerror(err)
		require.NotNil(t, te, "%v", err)
		return terror.ToSQLError(te).Code
	}
	for text, want := range map[string]uint16{
		exeerrors.ErrMemoryExceedForQuery.FastGenByArgs(uint64(7)).Error(): 8175, exeerrors.ErrMemoryExceedForInstance.FastGenByArgs(uint64(7)).Error(): 8176,
	} { // by TestMemoryBesideBuilds with FASTDDL_SEED=12248661070906592759
		require.EqualValues(t, want, number(withErrorCode(t.Context(), errors.New(text), new(sqlkiller.SQLKiller))), text)
	}
	broken := &brokenRows{err: full}
	ended := 0
	rows := &clientRows{RecordSet: broken, killer: new(sqlkiller.SQLKiller), end: func() { ended++ }}
	detached, ok, err := rows.TryDetach()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, ended, "rows that are fetched later are no running statement")
	rows.OnFetchReturned()
	require.Equal(t, 1, broken.fetches)
	for name, rs := range map[string]sqlexec.RecordSet{"rows": rows, "detached": detached} {
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.Next(t.Context(), chunk.NewEmptyChunk(nil))), name)
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.(interface{ Finish() error }).Finish()), name)
		require.EqualValues(t, mysql.ErrDiskFull, number(rs.Close()), name)
	}
	require.Equal(t, 1, ended)
}

// TestOtherErrorsKeepTheirCodes: what a user has written may read like a refusal of the store.
func TestOtherErrorsKeepTheirCodes(t *testing.T) {
	killer := new(sqlkiller.SQLKiller)
	for _, refusal := range []error{kv.ErrDiskFull, kv.ErrTooManyLocks, kv.ErrTxnTooLarge} {
		duplicate := fmt.Errorf("insert: %w", tidbkv.ErrKeyExists.FastGenByArgs(refusal.Error(), "t.k"))
		require.Equal(t, duplicate, withErrorCode(t.Context(), duplicate, killer))
		unnumbered := dbterror.ClassDDL.Synthesize(terror.CodeUnknown, "tikv aborts txn: "+refusal.Error())
		require.NotEqual(t, unnumbered, withErrorCode(t.Context(), unnumbered, killer), "as TiDB's DDL jobs keep it")
	}
}

// TestEndedStatementsHaveMySQLCodes: where TiDB, or its client of the store, has only a text for what ended a statement.
func TestEndedStatementsHaveMySQLCodes(t *testing.T) {
	killer := new(sqlkiller.SQLKiller)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		want uint16 // 0: as it was
	}{
		{ended, fmt.Errorf("read: %w", context.Canceled), mysql.ErrQueryInterrupted}, // the signal is forgotten
		{t.Context(), fmt.Errorf("read: %w", context.Canceled), 0},
		{t.Context(), errors.New("[executor:1317]Query execution was interrupted"), mysql.ErrQueryInterrupted},
		{t.Context(), fmt.Errorf("lock: %w", tikverr.ErrLockWaitTimeout), mysql.ErrLockWaitTimeout},
		{ended, tidbkv.ErrKeyExists.FastGenByArgs("context canceled", "t.k"), mysql.ErrDupEntry},
	} {
		rows := &clientRows{RecordSet: &brokenRows{err: tc.err}, killer: killer}
		for _, err := range []error{withErrorCode(tc.ctx, tc.err, killer), rows.Next(tc.ctx, chunk.NewEmptyChunk(nil))} {
			if tc.want == 0 {
				require.Equal(t, tc.err, err)
				continue
			}
			te := job.FindTerror(err)
			require.NotNil(t, te, "%v", err)
			require.Equal(t, tc.want, terror.ToSQLError(te).Code)
		}
	}
}

// finishedRows are like TiDB's: they have no executor any more when they are finished.
type finishedRows struct {
	sqlexec.RecordSet
	executor *int
	killer   *sqlkiller.SQLKiller
}

func (r *finishedRows) NewChunk(chunk.Allocator) *chunk.Chunk {
	return chunk.NewChunkWithCapacity(nil, *r.executor)
}

func (r *finishedRows) Next(context.Context, *chunk.Chunk) error { return r.killer.HandleSignal() }

func (r *finishedRows) Finish() error {
	r.executor = nil
	return nil
}

// TestRowsFinishedByAKillBeforeTheyAreRead: a KILL finishes the rows of a statement from another goroutine, also before the
// session has asked for its first chunk. The statement ends with 1317, not with a panic.
func TestRowsFinishedByAKillBeforeTheyAreRead(t *testing.T) {
	killer := new(sqlkiller.SQLKiller)
	size := 1
	rows := &clientRows{RecordSet: &finishedRows{executor: &size, killer: killer}, killer: killer}
	require.NotNil(t, rows.NewChunk(nil))
	killer.SendKillSignal(sqlkiller.QueryInterrupted)
	require.NoError(t, rows.Finish())
	var req *chunk.Chunk
	require.NotPanics(t, func() { req = rows.NewChunk(nil) })
	require.NotNil(t, req)
	require.ErrorIs(t, rows.Next(t.Context(), req), exeerrors.ErrQueryInterrupted)
}
