package sql

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/kv"
	"fastddl/sql/sqltype"
	"fastddl/table"
)

// lookup translates an index lookup into what is to be read: the value of a
// whole unique key, or key ranges in ascending order that do not overlap. It
// returns nil if nothing can match.
//
// A range on several columns becomes the range of the keys that start with the
// columns fixed by equality, cut by the bounds of the next column; bounds behind
// that one are left to the filter above.
func (x *index) lookup(ctx *gms.Context, lookup gms.IndexLookup) (*partition, error) {
	part := &partition{index: x, reverse: lookup.IsReverse}
	if lookup.IsEmptyRange {
		return nil, nil
	}
	ranges, ok := lookup.Ranges.(gms.MySQLRangeCollection)
	if !ok {
		return nil, fmt.Errorf("index %s: ranges of type %T", x.ID(), lookup.Ranges)
	}
	conv := boundConverter{ctx: ctx, loc: sqltype.Location(ctx)}
	for _, r := range ranges {
		b, ok := x.bounds(&conv, r)
		if !ok {
			continue
		}
		if len(ranges) == 1 && b.point && x.IsUnique() && x.prefixLengths == nil {
			part.point = b.lo.Values
			return part, nil
		}
		keys, err := x.keyRanges(b)
		if err != nil {
			return nil, err
		}
		part.ranges = append(part.ranges, keys...)
	}
	if len(part.ranges) == 0 {
		return nil, nil
	}
	part.ranges = x.disjoint(part.ranges)
	return part, nil
}

// bounds are the two ends of a range of key values.
type bounds struct {
	lo, hi table.Bound
	// point says that all columns of the key are fixed, to values that are not
	// NULL.
	point bool
}

// bounds returns false for a range that holds nothing.
func (x *index) bounds(conv *boundConverter, r gms.MySQLRange) (bounds, bool) {
	n := min(len(r), len(x.codecs))
	prefix := make([]types.Datum, 0, n)
	for i := range n {
		col := conv.column(x.codecs[i], r[i])
		if col.empty {
			return bounds{}, false
		}
		if col.equal {
			prefix = append(prefix, col.lo)
			continue
		}
		return cutPrefix(prefix, col), true
	}
	b := bounds{point: n == len(x.codecs)}
	b.lo = table.Bound{Values: prefix, Inclusive: true}
	b.hi = b.lo
	for i := range prefix {
		b.point = b.point && !prefix[i].IsNull()
	}
	return b, true
}

// cutPrefix returns the bounds of the keys that start with prefix and whose next
// column lies in col.
func cutPrefix(prefix []types.Datum, col columnRange) bounds {
	b := bounds{
		lo: table.Bound{Values: prefix, Inclusive: true},
		hi: table.Bound{Values: prefix, Inclusive: true},
	}
	if col.hasLo {
		b.lo = table.Bound{Values: append(slices.Clone(prefix), col.lo), Inclusive: col.loInclusive}
	}
	if col.hasHi {
		b.hi = table.Bound{Values: append(slices.Clone(prefix), col.hi), Inclusive: col.hiInclusive}
	}
	return b
}

func (x *index) keyRanges(b bounds) ([]kv.KeyRange, error) {
	if x.clustered {
		return x.def.table.HandleRanges(b.lo, b.hi)
	}
	r, err := x.def.table.IndexKeyRange(x.info, b.lo, b.hi)
	if err != nil {
		return nil, err
	}
	return []kv.KeyRange{r}, nil
}

// disjoint sorts ranges and joins those that overlap: ranges that differ for
// go-mysql-server can be one under the column's collation.
func (x *index) disjoint(ranges []kv.KeyRange) []kv.KeyRange {
	ranges = slices.DeleteFunc(ranges, kv.KeyRange.Empty)
	slices.SortFunc(ranges, func(a, b kv.KeyRange) int { return x.compareKeys(a.Start, b.Start) })
	out := ranges[:0]
	for _, r := range ranges {
		if len(out) > 0 {
			last := &out[len(out)-1]
			if x.compareKeys(r.Start, last.End) < 0 {
				if x.compareKeys(r.End, last.End) > 0 {
					last.End = r.End
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// compareKeys compares keys by the values they stand for. That is their own
// order, except for handles of unsigned integers: those are stored as signed
// ones, the upper half before the lower.
func (x *index) compareKeys(a, b []byte) int {
	if !x.unsignedHandle || len(a) <= tablecodec.RecordRowKeyLen-8 || len(b) <= tablecodec.RecordRowKeyLen-8 {
		return bytes.Compare(a, b)
	}
	const sign = tablecodec.RecordRowKeyLen - 8
	if c := bytes.Compare(a[:sign], b[:sign]); c != 0 {
		return c
	}
	if upperA, upperB := a[sign] < 0x80, b[sign] < 0x80; upperA != upperB {
		if upperA {
			return 1
		}
		return -1
	}
	return bytes.Compare(a[sign:], b[sign:])
}

// columnRange is the range of one column of a key. Without a bound it is open at
// that end; NULL sorts before all other values.
type columnRange struct {
	lo, hi                   types.Datum
	hasLo, hasHi             bool
	loInclusive, hiInclusive bool
	equal, empty             bool
}

// boundConverter makes datums of go-mysql-server's range bounds.
type boundConverter struct {
	ctx *gms.Context
	loc *time.Location
}

func (c *boundConverter) column(codec *sqltype.Codec, r gms.MySQLRangeColumnExpr) columnRange {
	var out columnRange
	switch cut := r.LowerBound.(type) {
	case gms.Below:
		out.lo, out.hasLo = c.datum(codec, cut.Key)
		out.loInclusive = true
	case gms.Above:
		out.lo, out.hasLo = c.datum(codec, cut.Key)
		// A value that does not fit the column exactly was rounded.
		out.loInclusive = !codec.Exact(cut.Key)
	case gms.AboveNull:
		out.hasLo = true
	case gms.AboveAll:
		out.empty = true
	}
	switch cut := r.UpperBound.(type) {
	case gms.Above:
		out.hi, out.hasHi = c.datum(codec, cut.Key)
		out.hiInclusive = true
	case gms.Below:
		out.hi, out.hasHi = c.datum(codec, cut.Key)
		out.hiInclusive = !codec.Exact(cut.Key)
	case gms.AboveNull:
		out.hasHi, out.hiInclusive = true, true
	case gms.BelowNull:
		out.empty = true
	}
	out.equal = c.isEqual(r, &out)
	if !out.equal && !codec.Ordered() {
		return columnRange{empty: out.empty}
	}
	return out
}

// isEqual recognises [x, x], and NULL alone.
func (c *boundConverter) isEqual(r gms.MySQLRangeColumnExpr, out *columnRange) bool {
	if _, ok := r.LowerBound.(gms.BelowNull); ok {
		_, null := r.UpperBound.(gms.AboveNull)
		return null
	}
	below, ok := r.LowerBound.(gms.Below)
	if !ok || !out.hasLo || !out.hasHi {
		return false
	}
	above, ok := r.UpperBound.(gms.Above)
	if !ok {
		return false
	}
	cmp, err := r.Typ.Compare(c.ctx, below.Key, above.Key)
	return err == nil && cmp == 0
}

// datum returns false for a value that the column's type cannot take: the range
// is open at that end then, and the filter above decides.
func (c *boundConverter) datum(codec *sqltype.Codec, v any) (types.Datum, bool) {
	var d types.Datum
	if err := codec.Encode(c.ctx, v, c.loc, &d); err != nil {
		return types.Datum{}, false
	}
	return d, true
}
