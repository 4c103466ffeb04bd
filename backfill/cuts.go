package backfill

import (
	"bytes"
	"slices"

	"fastddl/backfill/execution"
)

// checksumEntries is how many entries a store sums up at least by one request, if it is
// asked for ranges of what it has in one piece: it sums up a request on one core.
const checksumEntries = 10_000

// keepCuts keeps keys at which the entries of a target can be cut into parts of about the
// same size, by a sample of them. Many targets need no cuts.
func (b *build) keepCuts(prefix []byte, sample [][]byte) {
	if !b.StoreSums() || len(sample) == 0 || len(b.Task.Indexes)*len(b.Physicals) >= execution.StoreRequests {
		return
	}
	sorted := slices.SortedFunc(slices.Values(sample), bytes.Compare)
	for i := 1; i < execution.StoreRequests; i++ {
		b.cuts = append(b.cuts, slices.Concat(prefix, sorted[len(sorted)*i/execution.StoreRequests]))
	}
}
