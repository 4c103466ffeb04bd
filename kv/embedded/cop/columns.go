package cop

import (
	"time"

	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
)

// fieldType returns the type of a stored column. An unknown collation is treated as binary by what uses it.
func fieldType(col *tipb.ColumnInfo) *types.FieldType {
	cs, collation, err := charset.GetCharsetInfoByID(int(collate.RestoreCollationIDIfNeeded(col.GetCollation())))
	if err != nil {
		cs, collation = charset.CharsetBin, charset.CollationBin
	}
	ft := &types.FieldType{}
	ft.SetType(byte(col.GetTp()))
	ft.SetFlag(uint(col.GetFlag()))
	ft.SetFlen(int(col.GetColumnLen()))
	ft.SetDecimal(int(col.GetDecimal()))
	ft.SetElems(col.Elems)
	ft.SetCharset(cs)
	ft.SetCollate(collation)
	return ft
}

// fieldTypes returns the types of all columns.
func fieldTypes(cols []*tipb.ColumnInfo) []*types.FieldType {
	fts := make([]*types.FieldType, len(cols))
	for i, col := range cols {
		fts[i] = fieldType(col)
	}
	return fts
}

// columnInfos pairs the columns with their types for TiDB's decoders.
func columnInfos(cols []*tipb.ColumnInfo, fts []*types.FieldType) []rowcodec.ColInfo {
	infos := make([]rowcodec.ColInfo, len(cols))
	for i, col := range cols {
		infos[i] = rowcodec.ColInfo{ID: col.ColumnId, Ft: fts[i], IsPKHandle: col.PkHandle}
	}
	return infos
}

// appendDefault appends the value that a row has in a column that was added after the row was written.
func appendDefault(chk *chunk.Chunk, i int, col *tipb.ColumnInfo, ft *types.FieldType, loc *time.Location) error {
	if col.PkHandle || len(col.DefaultVal) == 0 {
		chk.AppendNull(i)
		return nil
	}
	_, err := codec.NewDecoder(chk, loc).DecodeOne(col.DefaultVal, i, ft)
	return err
}
