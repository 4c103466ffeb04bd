package genexpr

import (
	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/sql/sqlerr"
)

// Infer implements generated.Compiler. Numbers get the widest type of their
// kind; strings their collation and the greatest length that they can have.
func (c *Compiler) Infer(tbl *model.TableInfo, expr, collation string) (*types.FieldType, error) {
	node, err := parse(expr)
	if err != nil {
		return nil, err
	}
	text, err := Text(expr)
	if err != nil {
		return nil, err
	}
	ctx := newContext(collation)
	resolved, err := c.resolve(ctx, tbl, text)
	if err != nil {
		return nil, err
	}
	typ := resolved.Type(ctx)
	switch {
	case gmstypes.IsJSON(typ), gmstypes.IsGeometry(typ):
		return nil, dbterror.ErrFunctionalIndexOnJSONOrGeometryFunction
	case gmstypes.IsTextOnly(typ), gmstypes.IsText(typ):
		coll, _ := gms.GetCoercibility(ctx, resolved)
		n, bounded := (&widths{tbl}).of(node)
		if !bounded {
			return nil, dbterror.ErrFunctionalIndexOnBlob
		}
		return stringType(gmstypes.IsBinaryType(typ), coll, n)
	}
	if ft := numberOrTime(typ); ft != nil {
		return ft, nil
	}
	return nil, sqlerr.Newf(errno.ErrUnsupportedDDLOperation, "Unsupported expression index on a value of type %s", typ)
}

func stringType(binary bool, coll gms.CollationID, length int) (*types.FieldType, error) {
	ft := types.NewFieldType(mysql.TypeVarchar)
	ft.SetFlen(length)
	ft.SetCharset(charset.CharsetBin)
	ft.SetCollate(charset.CollationBin)
	if binary {
		ft.AddFlag(mysql.BinaryFlag)
		return ft, nil
	}
	known, err := charset.GetCollationByName(coll.Name())
	if err != nil {
		return nil, err
	}
	ft.SetCharset(known.CharsetName)
	ft.SetCollate(known.Name)
	return ft, nil
}

// integerDigits are what DECIMALs get more than GMS says, because its types are too
// narrow where integers take part.
const integerDigits = 20

// numberOrTime returns nil for other types.
func numberOrTime(typ gms.Type) *types.FieldType {
	ft := func(tp byte) *types.FieldType {
		ft := types.NewFieldType(tp)
		flen, decimal := mysql.GetDefaultFieldLengthAndDecimal(tp)
		ft.SetFlen(flen)
		ft.SetDecimal(decimal)
		ft.SetCharset(charset.CharsetBin)
		ft.SetCollate(charset.CollationBin)
		ft.AddFlag(mysql.BinaryFlag)
		return ft
	}
	switch {
	case gmstypes.IsDecimal(typ):
		dec := ft(mysql.TypeNewDecimal)
		precision, scale := mysql.MaxDecimalWidth, mysql.MaxDecimalScale
		if d, ok := typ.(gms.DecimalType); ok {
			precision, scale = int(d.Precision()), int(d.Scale())
		}
		dec.SetFlen(min(precision+integerDigits, mysql.MaxDecimalWidth))
		dec.SetDecimal(scale)
		return dec
	case gmstypes.IsFloat(typ):
		return ft(mysql.TypeDouble)
	case gmstypes.IsUnsigned(typ), gmstypes.IsBit(typ):
		n := ft(mysql.TypeLonglong)
		n.AddFlag(mysql.UnsignedFlag)
		return n
	case gmstypes.IsInteger(typ), gmstypes.IsYear(typ):
		return ft(mysql.TypeLonglong)
	case gmstypes.IsDateType(typ):
		return ft(mysql.TypeDate)
	case gmstypes.IsTimespan(typ):
		return withMicroseconds(ft(mysql.TypeDuration))
	case gmstypes.IsTime(typ):
		return withMicroseconds(ft(mysql.TypeDatetime))
	}
	return nil
}

func withMicroseconds(ft *types.FieldType) *types.FieldType {
	ft.SetDecimal(types.MaxFsp)
	ft.SetFlen(ft.GetFlen() + 1 + types.MaxFsp)
	return ft
}
