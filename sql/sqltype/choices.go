package sqltype

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	gms "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/types"
)

func decodeEnum(d *types.Datum, _ *time.Location) (any, error) {
	return uint16(d.GetMysqlEnum().Value), nil
}

func encodeEnum(ft *types.FieldType) encodeFunc {
	elems, collation := ft.GetElems(), ft.GetCollate()
	return func(v any, _ *time.Location, d *types.Datum) error {
		n, ok := v.(uint16)
		if !ok {
			return errOtherType
		}
		if n == 0 {
			// The empty value that stands for a bad one.
			d.SetMysqlEnum(types.Enum{}, collation)
			return nil
		}
		e, err := types.ParseEnumValue(elems, uint64(n))
		if err != nil {
			return err
		}
		d.SetMysqlEnum(e, collation)
		return nil
	}
}

func decodeSet(d *types.Datum, _ *time.Location) (any, error) { return d.GetMysqlSet().Value, nil }

func encodeSet(ft *types.FieldType) encodeFunc {
	elems, collation := ft.GetElems(), ft.GetCollate()
	return func(v any, _ *time.Location, d *types.Datum) error {
		n, ok := v.(uint64)
		if !ok {
			return errOtherType
		}
		s, err := types.ParseSetValue(elems, n)
		if err != nil {
			return err
		}
		d.SetMysqlSet(s, collation)
		return nil
	}
}

func decodeBit(d *types.Datum, _ *time.Location) (any, error) {
	var n uint64
	for _, b := range d.GetMysqlBit() {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

func encodeBit(ft *types.FieldType) encodeFunc {
	size := (ft.GetFlen() + 7) / 8
	return func(v any, _ *time.Location, d *types.Datum) error {
		n, ok := v.(uint64)
		if !ok {
			return errOtherType
		}
		d.SetMysqlBit(types.NewBinaryLiteralFromUint(n, size))
		return nil
	}
}

func decodeJSON(d *types.Datum, _ *time.Location) (any, error) {
	text, err := d.GetMysqlJSON().MarshalJSON()
	if err != nil {
		return nil, err
	}
	return gms.NewLazyJSONDocument(text), nil
}

func encodeJSON(v any, _ *time.Location, d *types.Datum) error {
	doc, ok := v.(sql.JSONWrapper)
	if !ok {
		return errOtherType
	}
	text, err := gms.JsonToMySqlBytes(context.Background(), doc)
	if err != nil {
		return err
	}
	j, err := types.ParseBinaryJSONFromString(string(text))
	if err != nil {
		return err
	}
	d.SetMysqlJSON(j)
	return nil
}
