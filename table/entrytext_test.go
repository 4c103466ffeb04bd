package table

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// A row is named by the values of its primary key as they were written, not as
// they are compared, whatever the entry's layout.
func TestEntryTextsNameRows(t *testing.T) {
	date, err := types.ParseDate(types.DefaultStmtNoWarningContext, "2024-02-29")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		table         *tableBuilder
		row           []types.Datum
		entry, handle string
	}{
		"integer":            {buildTable("t").column("id", bigint()).column("u", bigint()).clustered(ic(0)), row(-7, 5), "5", "-7"},
		"unsigned":           {buildTable("t").column("id", unsigned()).column("u", bigint()).clustered(ic(0)), row(uint64(1<<63+5), 5), "5", "9223372036854775813"},
		"restored value":     {buildTable("t").column("id", bigint()).column("u", varchar(9, "utf8mb4_general_ci")).clustered(ic(0)), row(3, "Ab "), "Ab ", "3"},
		"hidden row ID":      {buildTable("t").column("x", bigint()).column("u", varchar(9, "utf8mb4_bin")), row(1, "b "), "b ", "42"},
		"string":             {buildTable("t").column("id", varchar(9, "utf8mb4_bin")).column("u", bigint()).clustered(ic(0)), row("k 1 ", 5), "5", "k 1 "},
		"collated string":    {buildTable("t").column("id", varchar(9, "utf8mb4_general_ci")).column("u", bigint()).clustered(ic(0)), row("Éa", 5), "5", "Éa"},
		"both restored":      {buildTable("t").column("id", varchar(9, "utf8mb4_general_ci")).column("u", varchar(9, "utf8mb4_unicode_ci")).clustered(ic(0)), row("Éa", "ÀB"), "ÀB", "Éa"},
		"prefix":             {buildTable("t").column("id", varchar(9, "utf8mb4_general_ci")).column("u", bigint()).clustered(prefix(0, 2)), row("ABC", 5), "5", "AB"},
		"composite":          {buildTable("t").column("a", varchar(9, "utf8mb4_bin")).column("u", bigint()).column("d", types.NewFieldType(date.Type())).clustered(ic(2), ic(0)), row("x", 5, date), "5", "2024-02-29-x"},
		"indexed key column": {buildTable("t").column("u", varchar(9, "utf8mb4_general_ci")).column("b", varchar(9, "utf8mb4_general_ci")).clustered(ic(1)), row("U", "B"), "U", "B"},
	} {
		t.Run(name, func(t *testing.T) {
			at := 1
			if name == "indexed key column" {
				at = 0
			}
			tbl := c.table.index("u", true, model.StatePublic, ic(at)).table(t)
			h, err := tbl.AddRecord(context.Background(), newFakeTxn(), c.row, AddOptions{RowID: 42})
			require.NoError(t, err)
			idx := tbl.PublicIndexes()[0]
			key, value, distinct, err := tbl.IndexEntry(idx, c.row, h)
			require.NoError(t, err)
			require.True(t, distinct)
			entry, err := tbl.EntryText(idx, key, value, time.UTC)
			require.NoError(t, err)
			require.Equal(t, c.entry, entry)
			handle, err := tbl.EntryHandleText(idx, key, value, time.UTC)
			require.NoError(t, err)
			require.Equal(t, c.handle, handle)

			_, err = tbl.EntryHandleText(idx, key[:len(key)-1], value, time.UTC)
			require.Error(t, err, "a damaged entry")
		})
	}
}
