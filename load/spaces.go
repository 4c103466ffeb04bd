package load

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/backfill/encode"
	"fastddl/ingest"
	"fastddl/kv"
)

// space is what is sorted by itself: the records of the table, or the entries of an index.
type space struct {
	index *model.IndexInfo // nil of the records
	spec  ingest.KeySpace
	// values is the index whose columns the keys begin with: that of the space, or the primary key whose values are in the keys of the
	// records; nil if there is none.
	values *model.IndexInfo
	// ranges are where its keys lie, in key order: a range for each physical table, or one of all.
	ranges []kv.KeyRange
}

// name names the space in errors.
func (s *space) name() string {
	if s.index == nil {
		return "the rows"
	}
	return "index " + s.index.Name.O
}

// layout is the spaces of a table.
type layout struct {
	table     *model.TableInfo
	physicals []int64
	spaces    []space // the records are the first
	// ids has the ID of each space's index, as keys have it.
	ids []uint64
	// own is the ID of a table that is not partitioned, as keys have it. Of another one tables has the position in physicals of each
	// partition's, and -1 of the table's own, of which only global indexes have entries.
	own    uint64
	tables map[uint64]int
}

// newLayout returns the spaces of a table. A space of a partitioned table has the keys of all partitions, so that what is held in
// memory does not grow with their number.
func newLayout(t *model.TableInfo) *layout {
	l := &layout{table: t, physicals: encode.PhysicalIDs(t), own: keyInt(t.ID)}
	partitioned := t.GetPartitionInfo() != nil
	if partitioned {
		l.tables = map[uint64]int{l.own: -1}
		for i, id := range l.physicals {
			l.tables[keyInt(id)] = i
		}
	}
	records := space{spec: ingest.KeySpace{Records: true, Unique: true, Once: true, Prefix: tablecodec.GenTableRecordPrefix(t.ID)}}
	for _, id := range l.physicals {
		records.ranges = append(records.ranges, encode.RecordRange(id))
	}
	records.spread(partitioned)
	if t.IsCommonHandle {
		records.sumUp(tables.FindPrimaryIndex(t), headLen)
	}
	l.spaces, l.ids = append(l.spaces, records), append(l.ids, 0)
	for _, idx := range t.Indices {
		if !HasEntries(t, idx) {
			continue
		}
		s := space{index: idx, spec: ingest.KeySpace{
			ID: idx.ID, Unique: idx.Unique, Once: true, Prefix: encode.IndexPrefix(t.ID, idx.ID),
		}}
		for _, id := range encode.IndexIDs(t, idx, l.physicals) {
			s.ranges = append(s.ranges, encode.IndexRange(id, idx.ID))
		}
		s.spread(partitioned && !encode.IsGlobal(t, idx))
		s.sumUp(idx, encode.PrefixLen)
		l.spaces, l.ids = append(l.spaces, s), append(l.ids, keyInt(idx.ID))
	}
	return l
}

// maxStatisticsParts is how many partitions a table has at most of whose indexes statistics are made.
const maxStatisticsParts = 256

// local says that a space has the keys of several physical tables.
func (s *space) local() bool { return s.spec.FileKey > 0 }

// idLen is the length of an ID in a key, and headLen that of t{tableID}_r or t{tableID}_i.
const (
	idLen   = 8
	headLen = 1 + idLen + 2
)

// spread makes a space one of all physical tables.
func (s *space) spread(partitioned bool) {
	if partitioned {
		s.spec.Prefix, s.spec.FileKey = s.spec.Prefix[:1], idLen
	}
}

// sumUp has the values of an index, which begin at an offset of each key, summed up for statistics.
func (s *space) sumUp(idx *model.IndexInfo, offset int) {
	if s.local() && len(s.ranges) > maxStatisticsParts {
		return
	}
	s.values, s.spec.Columns, s.spec.Skip, s.spec.Sampled = idx, len(idx.Columns), offset-len(s.spec.Prefix), s.local()
}

// HasEntries says that an index of a table has entries of its own: the primary key of a clustered table is in the keys of the records,
// and a vector index is not in the store.
func HasEntries(t *model.TableInfo, idx *model.IndexInfo) bool {
	return idx.VectorInfo == nil && !(idx.Primary && t.HasClusteredIndex())
}

// keyInt is a number as keys have it.
func keyInt(n int64) uint64 { return codec.EncodeIntToCmpUint(n) }

// find returns the space of a key, and the position of its physical table, -1 of an entry of a global index. It fails if the table has
// no such key.
func (l *layout) find(key []byte) (at, table int, err error) {
	if len(key) <= headLen || key[0] != 't' || key[headLen-2] != '_' {
		return 0, 0, l.foreign(key)
	}
	table, ok := 0, true
	if id := binary.BigEndian.Uint64(key[1:]); l.tables != nil {
		table, ok = l.tables[id]
	} else {
		ok = id == l.own
	}
	if !ok {
		return 0, 0, l.foreign(key)
	}
	if key[headLen-1] == 'r' && table >= 0 {
		return 0, table, nil
	}
	if key[headLen-1] != 'i' || len(key) <= headLen+idLen {
		return 0, 0, l.foreign(key)
	}
	id := binary.BigEndian.Uint64(key[headLen:])
	for at := 1; at < len(l.ids); at++ {
		if l.ids[at] == id && (table < 0) == (l.tables != nil && !l.spaces[at].local()) {
			return at, table, nil
		}
	}
	return 0, 0, l.foreign(key)
}

func (l *layout) foreign(key []byte) error {
	return fmt.Errorf("load: table %s has no space for the key %x", l.table.Name.O, key)
}

// keySpaces are the spaces for ingest. imported says that the store has some of their keys.
func (l *layout) keySpaces(imported bool) []ingest.KeySpace {
	specs := make([]ingest.KeySpace, len(l.spaces))
	for i := range l.spaces {
		specs[i] = l.spaces[i].spec
		specs[i].Imported = imported
	}
	return specs
}

// whole is all that the store may have of the table: the ranges of its ID and of those of its partitions.
func (l *layout) whole() []kv.KeyRange {
	ids := l.physicals
	if !slices.Contains(ids, l.table.ID) {
		ids = append([]int64{l.table.ID}, ids...)
	}
	ranges := make([]kv.KeyRange, len(ids))
	for i, id := range ids {
		ranges[i] = kv.PrefixRange(tablecodec.EncodeTablePrefix(id))
	}
	return ranges
}
