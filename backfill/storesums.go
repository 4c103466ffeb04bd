package backfill

import (
	"context"

	"fastddl/ingest"
	"fastddl/kv"
)

// storeRequests is how many requests are under way at stores that count and sum up
// themselves, if there are not more workers: who asks does nothing but wait. TiDB asks
// for a query at about so many places (tidb_distsql_scan_concurrency).
const storeRequests = 16

// indexRanges are those of all indexes.
func (x *execution) indexRanges() (ranges []entryRange) {
	for k, idx := range x.task.Indexes {
		for _, id := range indexIDs(x.task.Table, idx, x.physicals) {
			ranges = append(ranges, entryRange{indexRange(id, idx.ID), k})
		}
	}
	return ranges
}

// storeSums says that the store sums up and counts itself.
func (x *execution) storeSums() bool {
	_, ok := x.opts.Store.(kv.Checksummer)
	return ok
}

// storeParallel is how many requests are under way at stores that count and sum up themselves.
func (x *execution) storeParallel() int { return max(x.share.Workers(), storeRequests) }

// storeSum is storeTotals, with the records that the store has met.
func (x *execution) storeSum(ctx context.Context, sums kv.Checksummer, r kv.KeyRange) (totals ingest.Totals, records int64, err error) {
	pacer, end := x.startVerifying()
	defer end()
	if err := pacer.Pace(ctx); err != nil {
		return totals, 0, err
	}
	sum, err := sums.Checksum(ctx, r, x.task.TS)
	return ingest.Totals{Entries: sum.Pairs, Bytes: sum.Bytes - sum.Pairs*int64(indexPrefixLen), CRC: sum.CRC}, sum.Records, err
}
