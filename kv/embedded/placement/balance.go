package placement

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	// A region larger than splitAbove is cut into pieces of about regionBytes. Neighbours that together are smaller than
	// mergeBelow are joined when they are older than mergeAge.
	regionBytes = 96 << 20
	splitAbove  = 144 << 20
	mergeBelow  = 32 << 20
	mergeAge    = time.Hour

	// balanceEvery is the time between two looks at the sizes, unless a look takes long: then the pause is
	// balancePause times the look.
	balanceEvery = 30 * time.Second
	balancePause = 100
)

// Sizer returns the sizes of the parts of a range.
type Sizer interface {
	Ranges(ctx context.Context, r kv.KeyRange) ([]kv.SizedRange, error)
}

// Balance keeps the regions at a useful size until ctx ends.
func (rs *Regions) Balance(ctx context.Context, sizes Sizer, log *zap.Logger) {
	wait := balanceEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		start := time.Now()
		if err := rs.balanceSafely(ctx, sizes); err != nil && ctx.Err() == nil {
			log.Warn("regions could not be balanced", zap.Error(err))
		}
		wait = max(balanceEvery, time.Since(start)*balancePause)
	}
}

func (rs *Regions) balanceSafely(ctx context.Context, sizes Sizer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("placement: balancing: %v", r)
		}
	}()
	return rs.BalanceOnce(ctx, sizes)
}

// BalanceOnce splits regions that are too large and joins those that are too small.
func (rs *Regions) BalanceOnce(ctx context.Context, sizes Sizer) error {
	pieces, err := sizes.Ranges(ctx, kv.KeyRange{})
	if err != nil {
		return err
	}
	regions := rs.All()
	bytesOf := make(map[uint64]uint64, len(regions))
	var cuts [][]byte
	for _, r := range regions {
		in := piecesIn(pieces, r.Keys)
		for _, p := range in {
			bytesOf[r.ID] += p.Bytes
		}
		if bytesOf[r.ID] > splitAbove {
			cuts = append(cuts, cutsOf(in, r.Keys)...)
		}
	}
	if len(cuts) > 0 {
		rs.Split(cuts...)
		return nil
	}
	rs.merge(func(left, right *Region) bool {
		l, ok := bytesOf[left.ID]
		r, ok2 := bytesOf[right.ID]
		if !ok || !ok2 || l+r > mergeBelow || time.Since(left.born) < mergeAge || time.Since(right.born) < mergeAge {
			return false
		}
		bytesOf[left.ID] = l + r
		return true
	})
	return nil
}

// piecesIn returns the pieces that begin in r. A piece that lies across a boundary counts where it begins.
func piecesIn(pieces []kv.SizedRange, r kv.KeyRange) []kv.SizedRange {
	first := 0
	for first < len(pieces) && bytes.Compare(pieces[first].Start, r.Start) < 0 {
		first++
	}
	last := first
	for last < len(pieces) && r.Contains(pieces[last].Start) {
		last++
	}
	return pieces[first:last]
}

// cutsOf cuts r after each regionBytes or so.
func cutsOf(pieces []kv.SizedRange, r kv.KeyRange) (cuts [][]byte) {
	var size uint64
	for _, p := range pieces {
		size += p.Bytes
		if size >= regionBytes && p.End != nil && r.Contains(p.End) {
			cuts = append(cuts, p.End)
			size = 0
		}
	}
	return cuts
}
