package cop

import (
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
)

// typedConstants are the constants of expressions whose types TiDB's library does not decode, though they are sent: a TIME
// would lose its fraction, a FLOAT would be a DOUBLE, a BIT a string, a NULL have no type. Values of outer queries and of
// subqueries that were evaluated are constants too, so that these types come from anywhere.
//
// While the library builds an expression each of them is a column behind those of the input, because the library infers types
// from the arguments' (DATE_ADD). Then they are put where these columns are.
type typedConstants []typedConstant

type typedConstant struct {
	pb    *tipb.Expr
	tp    tipb.ExprType // of pb, which is a column now
	val   []byte        // of pb too
	value *expression.Constant
}

// take makes the constants of an expression columns, behind as many as the input has.
func (c *typedConstants) take(pb *tipb.Expr, inputs int) error {
	for _, child := range pb.Children {
		if err := c.take(child, inputs); err != nil {
			return err
		}
	}
	if pb.FieldType == nil || byte(pb.FieldType.Tp) == mysql.TypeUnspecified {
		return nil
	}
	d, ok, err := decodeConstant(pb)
	if err != nil || !ok {
		return err
	}
	value := &expression.Constant{Value: d, RetType: expression.FieldTypeFromPB(pb.FieldType)}
	*c = append(*c, typedConstant{pb: pb, tp: pb.Tp, val: pb.Val, value: value})
	pb.Tp, pb.Val = tipb.ExprType_ColumnRef, codec.EncodeInt(nil, int64(inputs+len(*c)-1))
	return nil
}

// giveBack makes the columns constants again: the request stays what it was.
func (c *typedConstants) giveBack() {
	for _, taken := range *c {
		taken.pb.Tp, taken.pb.Val = taken.tp, taken.val
	}
}

// columnsAfter returns the types of the input's columns and of the constants.
func (c typedConstants) columnsAfter(fields []*types.FieldType) []*types.FieldType {
	fields = slices.Clip(fields) // they are not ours
	for _, taken := range c {
		fields = append(fields, taken.value.RetType)
	}
	return fields
}

// substitute puts the constants into an expression over as many columns as the input has.
func (c typedConstants) substitute(e expression.Expression, inputs int) expression.Expression {
	if len(c) == 0 {
		return e
	}
	switch e := e.(type) {
	case *expression.Column:
		if e.Index >= inputs {
			return c[e.Index-inputs].value
		}
	case *expression.ScalarFunction:
		args := e.GetArgs()
		for i, arg := range args {
			args[i] = c.substitute(arg, inputs)
		}
	}
	return e
}

// decodeConstant returns the value of a constant; ok is false if the library knows better.
func decodeConstant(pb *tipb.Expr) (d types.Datum, ok bool, err error) {
	switch pb.Tp {
	case tipb.ExprType_Null:
	case tipb.ExprType_Bytes:
		d.SetBytes(pb.Val)
	case tipb.ExprType_MysqlBit:
		d.SetMysqlBit(pb.Val)
	case tipb.ExprType_Float32, tipb.ExprType_Float64:
		_, f, err := codec.DecodeFloat(pb.Val)
		if err != nil {
			return d, false, fmt.Errorf("floating point constant: %w", err)
		}
		d.SetFloat64(f)
		if pb.Tp == tipb.ExprType_Float32 {
			d.SetFloat32(float32(f))
		}
	case tipb.ExprType_MysqlDuration:
		_, i, err := codec.DecodeInt(pb.Val)
		if err != nil {
			return d, false, fmt.Errorf("TIME constant: %w", err)
		}
		fsp := int(pb.FieldType.Decimal)
		if fsp < types.MinFsp || fsp > types.MaxFsp {
			fsp = types.MaxFsp
		}
		d.SetMysqlDuration(types.Duration{Duration: time.Duration(i), Fsp: fsp})
	default:
		return d, false, nil
	}
	return d, true, nil
}
