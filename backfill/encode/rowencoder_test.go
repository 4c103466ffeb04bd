package encode

import (
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
)

// TestRowEncoderEncodesAsTheLibrary: a single row has the entries that a build
// gives it, also if the library makes them.
func TestRowEncoderEncodesAsTheLibrary(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(60) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := backfilltest.NewFixture(t, table, kinds)
		f.Insert(r, 20)
		for _, encoder := range []func(Task) (*RowEncoder, error){NewRowEncoder, NewLibraryRowEncoder} {
			enc, err := encoder(Task{JobID: 77, Table: table, Indexes: []*model.IndexInfo{idx}, TS: f.TS()})
			require.NoError(t, err)
			for key, row := range f.Rows {
				entries, err := enc.Encode([]byte(key), f.EncodeRow(row.Values))
				require.NoError(t, err)
				wantKey, wantValue, _ := backfilltest.LibraryEntry(t, table, idx, slices.Clone(row.Values), row.Handle)
				require.Equal(t, []Entry{{idx.ID, wantKey, wantValue}}, entries, backfilltest.Describe(table, idx, kinds))
			}
		}
	}
}
