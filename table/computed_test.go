package table

import (
	"context"
	"fmt"
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/generated/generatedtest"
	"fastddl/kv"
)

// An index on an expression is maintained like any other in each schema state,
// although its column is hidden and not public before the index is.
func TestExpressionIndexMaintenanceByState(t *testing.T) {
	ctx := context.Background()
	for _, unique := range []bool{false, true} {
		for state, want := range map[model.SchemaState]struct{ puts, deletes bool }{
			model.StateDeleteOnly:          {false, true},
			model.StateWriteOnly:           {true, true},
			model.StateWriteReorganization: {true, true},
			model.StatePublic:              {true, true},
		} {
			t.Run(fmt.Sprintf("%s unique=%v", state, unique), func(t *testing.T) {
				tbl := buildTable("t").column("id", bigint()).column("c", varchar(20, "utf8mb4_general_ci")).
					column("n", bigint()).
					column("_V$_i_0", varchar(20, "utf8mb4_general_ci")).hidden("lower(`c`)", state, "c").
					clustered(ic(0)).index("i", unique, state, ic(3)).table(t)
				require.Len(t, tbl.Columns(), 3, "rows have no hidden columns")
				entry := func(c string) string {
					key, _, _, err := tbl.IndexEntry(tbl.Meta().Indices[0], row(1, c, 0), tkv.IntHandle(1))
					require.NoError(t, err)
					return string(key)
				}
				txn := newFakeTxn()
				h, err := tbl.AddRecord(ctx, txn, row(1, "ABC", 0), AddOptions{})
				require.NoError(t, err)
				require.Equal(t, want.puts, txn.writes[entry("abc")] != nil, "insert puts")
				stored, err := tbl.EncodeRow(row(1, "ABC", 0))
				require.NoError(t, err)
				require.Equal(t, stored, txn.data[string(tbl.RecordKey(h))])

				txn.forget()
				_, err = tbl.UpdateRecord(ctx, txn, h, row(1, "ABC", 0), row(1, "Xyz", 0))
				require.NoError(t, err)
				old, written := txn.writes[entry("abc")]
				require.Equal(t, want.deletes, written, "update deletes")
				require.Nil(t, old)
				require.Equal(t, want.puts, txn.writes[entry("xyz")] != nil, "update puts")

				txn.forget()
				_, err = tbl.UpdateRecord(ctx, txn, h, row(1, "Xyz", 0), row(1, "Xyz", 7))
				require.NoError(t, err)
				require.Len(t, txn.writes, 1, "an update of another column writes the row alone")

				txn.forget()
				require.NoError(t, tbl.RemoveRecord(ctx, txn, h, row(1, "Xyz", 7)))
				_, written = txn.writes[entry("xyz")]
				require.Equal(t, want.deletes, written, "delete deletes")
			})
		}
	}
}

// A virtual column is in no row, a stored one in each, whatever the caller gives
// for them; readers show both.
func TestGeneratedColumns(t *testing.T) {
	ctx := context.Background()
	tbl := buildTable("t").column("id", bigint()).column("a", bigint()).
		column("v", bigint()).generated("`a` + 1", false, "a").
		column("s", bigint()).generated("`v` + 1", true, "v").
		clustered(ic(0)).index("v", true, model.StatePublic, ic(2)).table(t)
	txn := newFakeTxn()
	h, err := tbl.AddRecord(ctx, txn, row(1, 10, -1, -1), AddOptions{})
	require.NoError(t, err)
	read := func(cols ...int) []types.Datum {
		r, err := tbl.Reader(txn, cols, nil).Get(ctx, h)
		require.NoError(t, err)
		return r
	}
	require.Equal(t, row(1, 10, 11, 12), read(0, 1, 2, 3))
	require.Equal(t, row(12, 11), read(3, 2))

	idx := tbl.PublicIndexes()[0]
	covering := tbl.Reader(txn, []int{2, 0}, nil)
	require.True(t, covering.Covers(idx), "the index has the value of the virtual column")
	for _, cols := range [][]int{{2, 0}, {2, 1}} {
		it, err := tbl.Reader(txn, cols, nil).IndexScan(idx, []kv.KeyRange{tbl.IndexRange(idx)}, false)
		require.NoError(t, err)
		_, r, err := it.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(11), r[0].GetInt64())
		require.NoError(t, it.Close())
	}

	var dup *DuplicateError
	_, err = tbl.AddRecord(ctx, txn, row(2, 10, 0, 0), AddOptions{})
	require.ErrorAs(t, err, &dup)
	require.Equal(t, "Duplicate entry '11' for key 't.v'", dup.Error())
	require.Equal(t, row(1, 10, 11, 12), dup.Row)

	_, err = tbl.UpdateRecord(ctx, txn, h, row(1, 10, 11, 12), row(1, nil, 11, 12))
	require.NoError(t, err)
	require.Equal(t, row(1, nil, nil, nil), read(0, 1, 2, 3))
}

// Rows for which an expression has no value can be changed and deleted while its
// index is built, but not written any more once the index takes entries.
func TestRowsWithoutValue(t *testing.T) {
	ctx := context.Background()
	build := func(state model.SchemaState) *Table {
		return buildTable("t").column("id", bigint()).column("a", bigint()).
			column("_V$_i_0", bigint()).hidden("half(`a`)", state, "a").
			clustered(ic(0)).index("i", false, state, ic(2)).table(t)
	}
	none := build(model.StateNone)
	for _, state := range []model.SchemaState{model.StateDeleteOnly, model.StateWriteOnly, model.StatePublic} {
		t.Run(state.String(), func(t *testing.T) {
			tbl := build(state)
			puts := state != model.StateDeleteOnly
			txn := newFakeTxn()
			h, err := none.AddRecord(ctx, txn, row(1, -5), AddOptions{})
			require.NoError(t, err)
			before := len(txn.data)

			_, err = tbl.AddRecord(ctx, txn, row(2, -6), AddOptions{})
			if puts {
				require.ErrorIs(t, err, generatedtest.ErrNegative)
				require.Len(t, txn.data, before, "nothing is written")
			} else {
				require.NoError(t, err)
			}
			_, err = tbl.UpdateRecord(ctx, txn, h, row(1, -5), row(1, -7))
			require.Equal(t, puts, err != nil)
			if state == model.StatePublic {
				return
			}
			_, err = tbl.UpdateRecord(ctx, txn, h, row(1, -5), row(1, 8))
			require.NoError(t, err)
			_, err = none.UpdateRecord(ctx, txn, h, row(1, 8), row(1, -5))
			require.NoError(t, err)
			require.NoError(t, tbl.RemoveRecord(ctx, txn, h, row(1, -5)))
		})
	}
}

func TestGeneratedColumnsWithoutCompiler(t *testing.T) {
	b := buildTable("t").column("id", bigint()).column("v", bigint()).generated("`id` + 1", false, "id")
	tbl := b.tableWithout(t)
	_, err := tbl.AddRecord(context.Background(), newFakeTxn(), row(1, nil), AddOptions{RowID: 1})
	require.ErrorContains(t, err, "cannot be computed here")
}
