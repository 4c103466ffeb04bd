package verdict

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/internal/invariants"
	"fastddl/kv"
)

// brokenStore has snapshots that cannot be opened or read.
type brokenStore struct {
	kv.Store
	open error
	read func() error
}

func (s *brokenStore) Snapshot(context.Context, uint64) (kv.Snapshot, error) {
	return &brokenSnapshot{read: s.read}, s.open
}

type brokenSnapshot struct {
	kv.Snapshot
	read func() error
}

func (s *brokenSnapshot) Get(context.Context, []byte) ([]byte, error) { return nil, s.read() }
func (s *brokenSnapshot) Close() error                                { return nil }

// verdictTask is a table with a clustered key of text, and errors of its rows.
func verdictTask() (encode.Task, []error) {
	column := func(id int64, name string, tp byte) *model.ColumnInfo {
		return &model.ColumnInfo{ID: id, Offset: int(id - 1), Name: pmodel.NewCIStr(name), FieldType: *types.NewFieldType(tp), State: model.StatePublic}
	}
	table := &model.TableInfo{ID: 7, Name: pmodel.NewCIStr("t"), IsCommonHandle: true, CommonHandleVersion: 1, Columns: []*model.ColumnInfo{
		column(1, "a", mysql.TypeLonglong), column(2, "b", mysql.TypeLonglong),
	}}
	on := func(id int64, name string, primary bool) *model.IndexInfo {
		return &model.IndexInfo{ID: id, Name: pmodel.NewCIStr(name), Primary: primary, Unique: true, State: model.StatePublic, Columns: []*model.IndexColumn{
			{Name: pmodel.NewCIStr("a"), Offset: 0, Length: types.UnspecifiedLength},
		}}
	}
	table.Indices = []*model.IndexInfo{on(1, "PRIMARY", true), on(2, "u", false)}
	dup := &ingest.DuplicateError{Groups: []*ingest.DuplicateGroup{ingest.NewDuplicateGroup(2, tablecodec.EncodeIndexSeekKey(7, 2, []byte{1}), []byte{0}, []byte{1})}}
	bad := &encode.RowError{Rows: []encode.BadRow{{
		Index: table.Indices[1], Column: table.Columns[0], Key: tablecodec.EncodeRowKey(7, []byte{3, 128, 0, 0, 0, 0, 0, 0, 5}),
		Err: types.ErrTruncatedWrongVal.GenWithStackByArgs("DOUBLE", "secret"),
	}}}
	same := &ingest.SameKeyError{IndexID: 2, Key: tablecodec.EncodeIndexSeekKey(7, 2, []byte{1})}
	return encode.Task{JobID: 11, Table: table, Indexes: table.Indices[1:], TS: 5}, []error{dup, bad, same}
}

// TestVerdictsStandWithoutTheirRows: that the rows cannot be listed, because something panics or the store cannot be read, changes neither
// the number of the error nor that it is final, and is said.
func TestVerdictsStandWithoutTheirRows(t *testing.T) {
	task, found := verdictTask()
	for name, store := range map[string]*brokenStore{
		"unreadable": {read: func() error { return errors.New("the store is away") }},
		"panic":      {read: func() error { panic("a lister") }},
		"closed":     {open: errors.New("no snapshot"), read: func() error { return nil }},
	} {
		for i, code := range []uint16{1062, 1292, 1105} {
			err, isVerdict := Of(t.Context(), store, task, fmt.Errorf("backfill: %w", found[i]))
			require.True(t, isVerdict)
			require.True(t, job.IsPermanent(err), "%s: %v", name, err)
			require.Equal(t, code, terror.ToSQLError(job.ErrorOf(err)).Code, "%s: %v", name, err)
			require.ErrorContains(t, err, "could", "%s: %v", name, err)
			require.ErrorContains(t, err, "see the log", "%s: %v", name, err)
			require.NotContains(t, job.TextForAll(err), "secret", name)
		}
	}
	require.Panics(t, func() {
		Of(t.Context(), &brokenStore{read: func() error { panic(invariants.Violation("an assertion")) }}, task, found[1])
	})
}

// TestWhatIsNoVerdict: a lost snapshot, or a build that is interrupted while it lists rows, begins again.
func TestWhatIsNoVerdict(t *testing.T) {
	task, found := verdictTask()
	store := &brokenStore{open: fmt.Errorf("open: %w", kv.ErrSnapshotTooOld)}
	for _, e := range found {
		err, isVerdict := Of(t.Context(), store, task, e)
		require.True(t, isVerdict)
		require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
		require.False(t, job.IsPermanent(err))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	err, _ := Of(ctx, &brokenStore{read: func() error { return ctx.Err() }}, task, found[1])
	require.ErrorIs(t, err, interrupted)
	require.False(t, job.IsPermanent(err))
	_, isVerdict := Of(t.Context(), store, task, errors.New("the store is away"))
	require.False(t, isVerdict)
}

// TestLongListsAreCut: a record takes some rows of long values.
func TestLongListsAreCut(t *testing.T) {
	task, found := verdictTask()
	long := found[1].(*encode.RowError)
	one := long.Rows[0]
	one.Err = types.ErrTruncatedWrongVal.FastGen("%s", strings.Repeat("x", 20<<10))
	long.Rows = nil
	for range encode.MaxBadRows {
		long.Rows = append(long.Rows, one)
	}
	l := rowLister{table: task.Table, loc: locationOr(nil), get: func([]byte) ([]byte, error) { return nil, nil }}
	v, unlisted := l.badRows(long)
	require.NoError(t, unlisted)
	require.Less(t, len(v.Rows), 10)
	require.NotEmpty(t, v.Rows)
	require.Equal(t, "5", v.Rows[0].Handle)
}
