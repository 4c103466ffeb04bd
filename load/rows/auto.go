package rows

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/pingcap/tidb/pkg/expression/exprctx"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/meta/autoid"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
)

// autoColumns gives rows the IDs that INSERT takes from TiDB's allocators.
type autoColumns struct {
	ids    *IDs
	blocks [counters]block
	// offset is that of the AUTO_INCREMENT or AUTO_RANDOM column; -1 if there is none.
	offset  int
	counter counter
	limit   uint64
	// shards are the formats of AUTO_RANDOM values and of hidden row IDs with SHARD_ROW_ID_BITS.
	random, rowID autoid.ShardIDFormat
	// keepZero reports that 0 is a value like others: NO_AUTO_VALUE_ON_ZERO.
	keepZero bool
	// made reports that the last row has a generated value in its column.
	made bool
}

func newAutoColumns(info *model.TableInfo, mode mysql.SQLMode, ids *IDs) autoColumns {
	a := autoColumns{ids: ids, offset: -1, keepZero: mode&mysql.ModeNoAutoValueOnZero != 0}
	a.rowID = autoid.NewShardIDFormat(types.NewFieldType(mysql.TypeLonglong), info.ShardRowIDBits, autoid.RowIDBitLength)
	if column := common.GetAutoRandomColumn(info); column != nil {
		a.offset, a.counter = column.Offset, autoRandom
		a.random = autoid.NewShardIDFormat(&column.FieldType, info.AutoRandomBits, info.AutoRandomRangeBits)
		a.limit = a.random.IncrementalBitsCapacity()
	} else if column := info.GetAutoIncrementColInfo(); column != nil {
		a.offset, a.counter, a.limit = column.Offset, autoIncrement, largest(&column.FieldType)
	}
	return a
}

// largest is the largest AUTO_INCREMENT value of a type.
func largest(ft *types.FieldType) uint64 {
	switch ft.GetType() {
	case mysql.TypeFloat:
		return 1 << 24
	case mysql.TypeDouble:
		return 1 << 53
	}
	if mysql.HasUnsignedFlag(ft.GetFlag()) {
		return types.IntegerUnsignedUpperBound(ft.GetType())
	}
	return uint64(types.IntegerSignedUpperBound(ft.GetType()))
}

func (a *autoColumns) has(offset int) bool { return offset == a.offset }

// newRowID returns a hidden row ID.
func (a *autoColumns) newRowID() (int64, error) {
	id := a.blocks[rowIDs].new(a.ids, rowIDs, a.rowID.IncrementalBitsCapacity())
	if uint64(id) > a.rowID.IncrementalBitsCapacity() {
		return 0, autoid.ErrAutoincReadFailed
	}
	if a.rowID.ShardBits == 0 {
		return id, nil
	}
	return a.rowID.Compose(shard(a.blocks[rowIDs].end), id), nil
}

// shard returns the shard of the IDs of a block, so that the rows of a block stay together.
func shard(block int64) int64 {
	const odd = 0x9e3779b97f4a7c15
	hi, lo := bits.Mul64(uint64(block)+odd, odd)
	return int64(hi ^ lo)
}

// fill sets the value of the column, or records the one that the row has: adjustAutoIncrementDatum and
// adjustAutoRandomDatum of TiDB's pkg/executor/insert_common.go. TiDB's IMPORT INTO takes 0 for a value.
func (a *autoColumns) fill(ctx exprctx.ExprContext, column *table.Column, d *types.Datum, given bool) error {
	a.made = false
	var id int64
	if given && !d.IsNull() {
		id = autoID(column, d)
		if id != 0 || a.keepZero {
			a.use(column, id)
			return nil
		}
	}
	b := &a.blocks[a.counter]
	id = b.new(a.ids, a.counter, a.limit)
	a.made = true
	if uint64(id) > a.limit {
		if a.counter == autoRandom {
			return autoid.ErrAutoRandReadFailed
		}
		return autoid.ErrAutoincReadFailed
	}
	if a.counter == autoRandom {
		id = a.random.Compose(shard(b.end), id)
	}
	d.SetAutoID(id, column.GetFlag())
	cast, err := table.CastColumnValue(ctx, *d, column.ToInfo(), false, false)
	if err != nil {
		return fmt.Errorf("generated value %d: %w", id, err)
	}
	*d = cast
	return nil
}

// autoID is the ID that a value of the column is.
func autoID(column *table.Column, d *types.Datum) int64 {
	switch column.GetType() {
	case mysql.TypeFloat, mysql.TypeDouble:
		return int64(math.Round(d.GetFloat64()))
	}
	return d.GetInt64()
}

// note records the ID of a row that has got it before.
func (a *autoColumns) note(column *table.Column, d *types.Datum) {
	if !d.IsNull() {
		a.use(column, autoID(column, d))
	}
}

// use records an ID that the row has.
func (a *autoColumns) use(column *table.Column, id int64) {
	if a.counter == autoRandom {
		id &= a.random.IncrementalMask()
	} else if id < 0 && !mysql.HasUnsignedFlag(column.GetFlag()) {
		return
	}
	a.blocks[a.counter].use(id)
}
