package cop

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
)

// scanRange is one [start, end) of a request; point says that start is the only key that it can hold.
type scanRange struct {
	start, end []byte
	point      bool
}

// noPoints is a keyLen that no key has.
const noPoints = math.MaxInt

// scanRanges returns the ranges in the order in which they are read. A range like [key, first key without this prefix) is a
// point if no key continues key, which is so for keys of at least keyLen bytes.
func scanRanges(pb []*coprocessor.KeyRange, desc bool, keyLen int) ([]scanRange, error) {
	if len(pb) == 0 {
		return nil, fmt.Errorf("the request has no range")
	}
	ranges := make([]scanRange, 0, len(pb))
	for _, r := range pb {
		switch c := bytes.Compare(r.Start, r.End); {
		case c > 0:
			return nil, fmt.Errorf("invalid range: start %x is greater than end %x", r.Start, r.End)
		case c == 0:
			continue
		}
		kr := tidbkv.KeyRange{StartKey: r.Start, EndKey: r.End}
		point := (len(r.Start) >= keyLen || len(r.End) == len(r.Start)+1) && kr.IsPoint()
		ranges = append(ranges, scanRange{start: r.Start, end: r.End, point: point})
	}
	if desc {
		slices.Reverse(ranges)
	}
	return ranges, nil
}

// successor returns the smallest key greater than key.
func successor(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}
