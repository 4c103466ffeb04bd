package cop

import (
	"bytes"
	"reflect"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
)

// keyEncoder encodes the values of expressions so that two rows have equal keys if and only if all their values are equal
// under the values' collations.
type keyEncoder struct {
	values *columns
	fields []*types.FieldType // as the encoding wants them
	memory *keyMemory
}

func newKeyEncoder(env *evalEnv, exprs []expression.Expression) *keyEncoder {
	e := &keyEncoder{values: newColumns(env, exprs), fields: exprTypes(env, exprs), memory: env.newKeyMemory()}
	for i, ft := range e.fields {
		switch ft.GetType() {
		case mysql.TypeEnum, mysql.TypeSet, mysql.TypeBit:
			e.fields[i] = types.NewFieldType(mysql.TypeLonglong)
		case mysql.TypeNewDecimal:
			ft = ft.Clone()
			ft.SetFlen(0) // the digits that there are, not those that the type has room for
			e.fields[i] = ft
		}
	}
	return e
}

// encode returns the keys of the batch's rows; they are valid until the next call.
func (e *keyEncoder) encode(env *evalEnv, batch *chunk.Chunk) ([][]byte, error) {
	if err := e.values.eval(env, batch); err != nil {
		return nil, err
	}
	n, m := batch.NumRows(), e.memory
	for i := range min(n, len(m.keys)) {
		m.keys[i] = m.keys[i][:0]
	}
	if len(m.keys) < n {
		m.keys = append(m.keys, e.room(batch, n-len(m.keys))...)
	}
	for i, ft := range e.fields {
		if err := e.encodeColumn(env, batch, i, ft); err != nil {
			return nil, err
		}
	}
	return m.keys[:n], nil
}

// room makes n keys with room for what the average row of the batch needs, from one allocation.
func (e *keyEncoder) room(batch *chunk.Chunk, n int) [][]byte {
	size := 0
	for i, ft := range e.fields {
		size += 16
		if ft.EvalType() == types.ETString {
			size += bytesPerRow(e.values.column(batch, i), batch.NumRows())
		}
	}
	keys, buf := make([][]byte, n), make([]byte, n*size)
	for i := range keys {
		keys[i] = buf[i*size : i*size : (i+1)*size]
	}
	return keys
}

// bytesPerRow returns the average length of the first few values of the column, rounded up.
func bytesPerRow(col *chunk.Column, rows int) int {
	const sample = 8
	rows = min(rows, sample)
	total := 0
	for i := range rows {
		total += len(col.GetBytes(i))
	}
	return (total + rows - 1) / rows
}

func (e *keyEncoder) encodeColumn(env *evalEnv, batch *chunk.Chunk, i int, ft *types.FieldType) error {
	n := batch.NumRows()
	col := e.values.column(batch, i)
	orig := e.values.exprs[i].GetType(env.eval)
	var buf *chunk.Column
	switch orig.GetType() {
	case mysql.TypeEnum, mysql.TypeSet, mysql.TypeBit:
		buf = chunk.NewColumn(ft, n)
		appendNumbers(buf, col, orig, n)
	case mysql.TypeFloat:
		buf = chunk.NewColumn(ft, n)
		buf.ResizeFloat64(n, false)
		buf.MergeNulls(col)
		for k, f := range col.Float32s() {
			buf.Float64s()[k] = float64(f)
		}
	default:
		if ft.EvalType() == types.ETString && e.encodeBinary(col, n, ft) {
			return nil
		}
		buf = col
	}
	var err error
	e.memory.keys, err = codec.HashGroupKey(env.loc, n, buf, e.memory.keys, ft)
	errCtx := env.eval.ErrCtx()
	return errCtx.HandleError(err)
}

// stringFlag begins the encoding of a string; that of a null is codec.NilFlag.
const stringFlag = codec.NilFlag + 1

// encodeBinary encodes strings that are equal if their bytes are, or are but for spaces at the end, without the copy that
// the collation would make of each. It returns false for strings of other collations.
func (e *keyEncoder) encodeBinary(col *chunk.Column, n int, ft *types.FieldType) bool {
	padded := false
	switch reflect.TypeOf(collate.GetCollator(ft.GetCollate())) {
	case reflect.TypeOf(collate.GetBinaryCollator()):
	case reflect.TypeOf(collate.GetCollator(charset.CollationUTF8MB4)):
		padded = true
	default:
		return false
	}
	keys := e.memory.keys
	for k := range n {
		if col.IsNull(k) {
			keys[k] = append(keys[k], codec.NilFlag)
			continue
		}
		value := col.GetBytes(k)
		if padded {
			value = bytes.TrimRight(value, " ")
		}
		keys[k] = codec.EncodeCompactBytes(append(keys[k], stringFlag), value)
	}
	return true
}

// appendNumbers appends the numbers behind enum, set and bit values: what makes two of them equal.
func appendNumbers(dst, src *chunk.Column, ft *types.FieldType, n int) {
	for k := range n {
		switch {
		case src.IsNull(k):
			dst.AppendNull()
		case ft.GetType() == mysql.TypeEnum:
			dst.AppendUint64(src.GetEnum(k).Value)
		case ft.GetType() == mysql.TypeSet:
			dst.AppendUint64(src.GetSet(k).Value)
		default:
			dst.AppendUint64(bitNumber(src.GetBytes(k)))
		}
	}
}

// bitNumber returns the number that the bytes of a bit value are, the most significant first.
func bitNumber(b []byte) uint64 {
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
