package execution

import (
	"context"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/kv"
)

// StoreRequests is how many requests are under way at stores that count and sum up
// themselves, if there are not more workers: who asks does nothing but wait. TiDB asks
// for a query at about so many places (tidb_distsql_scan_concurrency).
const StoreRequests = 16

// IndexRanges are those of all indexes.
func (x *Execution) IndexRanges() (ranges []keyrange.Indexed) {
	for k, idx := range x.Task.Indexes {
		for _, id := range encode.IndexIDs(x.Task.Table, idx, x.Physicals) {
			ranges = append(ranges, keyrange.Indexed{KeyRange: encode.IndexRange(id, idx.ID), Index: k})
		}
	}
	return ranges
}

// StoreSums says that the store sums up and counts itself.
func (x *Execution) StoreSums() bool {
	_, ok := x.Opts.Store.(kv.Checksummer)
	return ok
}

// StoreParallel is how many requests are under way at stores that count and sum up themselves.
func (x *Execution) StoreParallel() int { return max(x.Share.Workers(), StoreRequests) }

// StoreSum is storeTotals, with the records that the store has met.
func (x *Execution) StoreSum(ctx context.Context, sums kv.Checksummer, r kv.KeyRange) (totals ingest.Totals, records int64, err error) {
	pacer, end := x.StartVerifying()
	defer end()
	if err := pacer.Pace(ctx); err != nil {
		return totals, 0, err
	}
	sum, err := sums.Checksum(ctx, r, x.Task.TS)
	return ingest.Totals{Entries: sum.Pairs, Bytes: sum.Bytes - sum.Pairs*int64(encode.PrefixLen), CRC: sum.CRC}, sum.Records, err
}
