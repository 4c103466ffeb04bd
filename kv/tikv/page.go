package tikv

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
)

var countFields = []*types.FieldType{types.NewFieldType(mysql.TypeLonglong)}

// hiddenHandle is the integer handle as a column; the table's name for it does not matter.
func hiddenHandle() *tipb.ColumnInfo {
	c := util.ColumnToProto(model.NewExtraHandleColInfo(), false, false)
	c.PkHandle = true
	return c
}

// pageDecoder decodes answers of the coprocessor.
type pageDecoder struct {
	fields []*types.FieldType
	codec  *chunk.Codec
}

func newPageDecoder(fields []*types.FieldType) *pageDecoder {
	return &pageDecoder{fields: fields, codec: chunk.NewCodec(fields)}
}

// decode returns the rows of an answer. Their columns lie in the answer's memory if TiKV
// has encoded them as columns; rows of types that it cannot encode so come as datums.
// What is damaged panics in the library, which is an error here.
func (d *pageDecoder) decode(resp *tipb.SelectResponse) (out []*chunk.Chunk, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("answer of the coprocessor: %v", r)
		}
	}()
	for i := range resp.Chunks {
		data := resp.Chunks[i].RowsData
		switch resp.EncodeType {
		case tipb.EncodeType_TypeChunk:
			for len(data) > 0 {
				c := chunk.NewChunkWithCapacity(d.fields, 0)
				data = d.codec.DecodeToChunk(data, c)
				out = append(out, c)
			}
		case tipb.EncodeType_TypeDefault:
			c, err := d.datums(data)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		default:
			return nil, fmt.Errorf("answer of the coprocessor: encoding %s", resp.EncodeType)
		}
	}
	return out, nil
}

// datums decodes rows that are encoded one by one.
func (d *pageDecoder) datums(data []byte) (*chunk.Chunk, error) {
	c := chunk.NewChunkWithCapacity(d.fields, chunk.InitialCapacity)
	dec := codec.NewDecoder(c, time.UTC)
	for len(data) > 0 {
		for i, ft := range d.fields {
			var err error
			if data, err = dec.DecodeOne(data, i, ft); err != nil {
				return nil, fmt.Errorf("answer of the coprocessor: %w", err)
			}
		}
	}
	return c, nil
}
