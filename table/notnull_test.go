package table

import (
	"context"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/stretchr/testify/require"
)

// A column that is becoming NOT NULL takes no new NULL; those that are there may
// stay.
func TestNoNewNulls(t *testing.T) {
	ctx := context.Background()
	b := buildTable("t").column("a", bigint()).column("b", bigint()).column("c", bigint())
	nullable := b.table(t)
	info := b.info.Clone()
	info.Columns[1].AddFlag(mysql.PreventNullInsertFlag)
	tbl := (&tableBuilder{info}).index("b", true, model.StateWriteOnly, ic(1)).table(t)

	txn := newFakeTxn()
	withNull, err := nullable.AddRecord(ctx, txn, row(1, nil, 0), AddOptions{RowID: 1})
	require.NoError(t, err)
	without, err := tbl.AddRecord(ctx, txn, row(nil, 2, nil), AddOptions{RowID: 2})
	require.NoError(t, err, "other columns take NULLs")

	txn.forget()
	var null *NullError
	_, err = tbl.AddRecord(ctx, txn, row(3, nil, 0), AddOptions{RowID: 3})
	require.ErrorAs(t, err, &null)
	require.Equal(t, "Column 'b' cannot be null", null.Error())
	require.EqualValues(t, 1048, null.MySQLCode())
	_, err = tbl.UpdateRecord(ctx, txn, without, row(nil, 2, nil), row(nil, nil, nil))
	require.ErrorAs(t, err, &null)
	require.Empty(t, txn.writes, "what is refused writes nothing")

	_, err = tbl.UpdateRecord(ctx, txn, withNull, row(1, nil, 0), row(1, nil, 7))
	require.NoError(t, err, "a NULL from before may stay")
	_, err = tbl.UpdateRecord(ctx, txn, withNull, row(1, nil, 7), row(1, 4, 7))
	require.NoError(t, err)
	_, err = tbl.UpdateRecord(ctx, txn, withNull, row(1, 4, 7), row(1, nil, 7))
	require.ErrorAs(t, err, &null, "but does not come back")
	require.NoError(t, tbl.RemoveRecord(ctx, txn, without, row(nil, 2, nil)))
}
