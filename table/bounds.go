package table

import (
	"fmt"
	"math"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/kv"
)

// Bound is one end of a range of key values: a prefix of the key's columns.
// Without values the end is open.
type Bound struct {
	Values    []types.Datum
	Inclusive bool
}

// IndexKeyRange returns the range of entries of idx between two bounds. Where
// an index holds only a prefix of a value the range includes all entries with
// that prefix, so the caller filters again.
func (t *Table) IndexKeyRange(idx *model.IndexInfo, lo, hi Bound) (kv.KeyRange, error) {
	return t.keyRange(tablecodec.EncodeTableIndexPrefix(t.meta.ID, idx.ID), idx, lo, hi)
}

// HandleRanges returns the ranges of record keys of a clustered table between
// two bounds on the primary key, in the order of the key's values: an unsigned
// integer key that may be above the largest signed one needs two.
func (t *Table) HandleRanges(lo, hi Bound) ([]kv.KeyRange, error) {
	switch {
	case t.meta.IsCommonHandle:
		r, err := t.keyRange(tablecodec.GenTableRecordPrefix(t.meta.ID), t.pk, lo, hi)
		return []kv.KeyRange{r}, err
	case t.meta.PKIsHandle && mysql.HasUnsignedFlag(t.meta.Columns[t.pkOffset].GetFlag()):
		return t.unsignedHandleRanges(lo, hi), nil
	case t.meta.PKIsHandle:
		r, ok := t.signedHandleRange(lo, hi)
		if !ok {
			return nil, nil
		}
		return []kv.KeyRange{r}, nil
	default:
		return nil, fmt.Errorf("table %s has no clustered primary key", t.meta.Name.O)
	}
}

func (t *Table) keyRange(prefix []byte, idx *model.IndexInfo, lo, hi Bound) (kv.KeyRange, error) {
	r := kv.PrefixRange(prefix)
	if len(lo.Values) > 0 {
		key, truncated, err := t.encodeBound(prefix, idx, lo.Values)
		if err != nil {
			return kv.KeyRange{}, err
		}
		r.Start = key
		if !lo.Inclusive && !truncated {
			r.Start = kv.PrefixNext(key)
		}
	}
	if len(hi.Values) > 0 {
		key, truncated, err := t.encodeBound(prefix, idx, hi.Values)
		if err != nil {
			return kv.KeyRange{}, err
		}
		r.End = key
		if hi.Inclusive || truncated {
			r.End = kv.PrefixNext(key)
		}
	}
	return r, nil
}

// encodeBound appends the values to the prefix. truncated says that the last
// value was cut, or may have been, to the index's prefix length.
func (t *Table) encodeBound(prefix []byte, idx *model.IndexInfo, values []types.Datum) (key []byte, truncated bool, err error) {
	cut := make([]types.Datum, len(values))
	for i, v := range values {
		col := idx.Columns[i]
		info := t.meta.Columns[col.Offset]
		cut[i] = v
		withCollation(&cut[i], info)
		tablecodec.TruncateIndexValue(&cut[i], col, info)
		truncated = truncated || col.Length != types.UnspecifiedLength
	}
	key, err = codec.EncodeKey(time.UTC, append([]byte(nil), prefix...), cut...)
	if err != nil {
		return nil, false, fmt.Errorf("encode bound of index %s: %w", idx.Name.O, err)
	}
	return key, truncated, nil
}

func (t *Table) signedHandleRange(lo, hi Bound) (kv.KeyRange, bool) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if len(lo.Values) > 0 && !lo.Values[0].IsNull() {
		from = lo.Values[0].GetInt64()
		if !lo.Inclusive {
			if from == math.MaxInt64 {
				return kv.KeyRange{}, false
			}
			from++
		}
	}
	if len(hi.Values) > 0 {
		if hi.Values[0].IsNull() {
			return kv.KeyRange{}, false
		}
		to = hi.Values[0].GetInt64()
		if !hi.Inclusive {
			if to == math.MinInt64 {
				return kv.KeyRange{}, false
			}
			to--
		}
	}
	return t.handleRange(from, to), from <= to
}

func (t *Table) unsignedHandleRanges(lo, hi Bound) []kv.KeyRange {
	from, to := uint64(0), uint64(math.MaxUint64)
	if len(lo.Values) > 0 && !lo.Values[0].IsNull() {
		from = lo.Values[0].GetUint64()
		if !lo.Inclusive {
			if from == math.MaxUint64 {
				return nil
			}
			from++
		}
	}
	if len(hi.Values) > 0 {
		if hi.Values[0].IsNull() {
			return nil
		}
		to = hi.Values[0].GetUint64()
		if !hi.Inclusive {
			if to == 0 {
				return nil
			}
			to--
		}
	}
	// Handles are stored as signed integers: those above MaxInt64 are negative
	// and their keys come first.
	var out []kv.KeyRange
	if from <= math.MaxInt64 && from <= to {
		out = append(out, t.handleRange(int64(from), int64(min(to, math.MaxInt64))))
	}
	if to > math.MaxInt64 && from <= to {
		out = append(out, t.handleRange(int64(max(from, math.MaxInt64+1)), int64(to)))
	}
	return out
}

// handleRange is the range of record keys with handles from..to, both included.
func (t *Table) handleRange(from, to int64) kv.KeyRange {
	return kv.KeyRange{
		Start: tablecodec.EncodeRowKeyWithHandle(t.meta.ID, tkv.IntHandle(from)),
		End:   kv.NextKey(tablecodec.EncodeRowKeyWithHandle(t.meta.ID, tkv.IntHandle(to))),
	}
}
