package sql

import (
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/stretchr/testify/require"
)

// TestDemandOfLargeRows: the larger the rows, the fewer are asked for, and never more than TiDB wants.
func TestDemandOfLargeRows(t *testing.T) {
	for _, c := range []struct{ size, most, next int }{
		{10, 1024, 1024}, {10, 5, 5}, {100 << 10, 1024, 40}, {8 << 20, 1024, 1},
	} {
		var d demand
		req := chunk.New([]*types.FieldType{types.NewFieldType(mysql.TypeBlob)}, 1, c.most)
		d.ask(req)
		require.Equal(t, min(firstRows, c.most), req.RequiredRows())
		for range 4 {
			req.AppendBytes(0, make([]byte, c.size))
		}
		d.got(req)
		d.ask(req)
		require.LessOrEqual(t, req.RequiredRows(), c.next, "rows of %d bytes", c.size)
		require.GreaterOrEqual(t, req.RequiredRows(), (c.next+1)/2, "rows of %d bytes", c.size)
	}
}

// TestDemandHoldsWhereChunksGrow: executors such as projections let a chunk grow that they find full, and then ask for as many
// rows as it may have. Chunks that were grown once for long rows do not make later ones smaller.
func TestDemandHoldsWhereChunksGrow(t *testing.T) {
	var d demand
	req := chunk.New([]*types.FieldType{types.NewFieldType(mysql.TypeBlob)}, 32, 1024)
	for round := range 20 {
		d.ask(req)
		req.GrowAndReset(1024)
		for range req.RequiredRows() {
			req.AppendBytes(0, make([]byte, 100<<10))
		}
		d.got(req)
		require.LessOrEqual(t, req.NumRows(), 40, "round %d", round)
		if round > 0 {
			require.GreaterOrEqual(t, req.NumRows(), 30, "round %d", round)
		}
	}
}
