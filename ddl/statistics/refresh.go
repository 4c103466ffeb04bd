package statistics

import (
	"context"
	"fmt"

	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/statistics/asyncload"
	"github.com/pingcap/tidb/pkg/statistics/handle/types"
)

// Refresh has this node read the statistics of indexes of a table now, wholly: TiDB reads them when it looks next, and wholly when a
// statement has missed them. Without a lease TiDB reads none.
func Refresh(ctx context.Context, handle types.StatsHandle, is infoschema.InfoSchema, table *model.TableInfo, indexes []*model.IndexInfo) error {
	if handle == nil || handle.Lease() < 0 {
		return nil
	}
	ids := []int64{table.ID}
	if p := table.GetPartitionInfo(); p != nil {
		for _, def := range p.Definitions {
			ids = append(ids, def.ID)
		}
	}
	if err := handle.Update(ctx, is, ids...); err != nil {
		return fmt.Errorf("read the statistics of %s: %w", table.Name.O, err)
	}
	for _, idx := range indexes {
		asyncload.AsyncLoadHistogramNeededItems.Insert(model.TableItemID{TableID: table.ID, ID: idx.ID, IsIndex: true}, true)
	}
	if err := handle.LoadNeededHistograms(is); err != nil {
		return fmt.Errorf("read the statistics of %s: %w", table.Name.O, err)
	}
	return nil
}
