package sqltype

import (
	"context"
	"fmt"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

type (
	decodeFunc func(d *types.Datum, loc *time.Location) (any, error)
	encodeFunc func(v any, loc *time.Location, d *types.Datum) error
)

// Codec translates the values of one column. It is immutable.
type Codec struct {
	typ    sql.Type
	ft     *types.FieldType
	decode decodeFunc
	encode encodeFunc
	zoned  bool
}

// NewCodec returns the codec of a column.
func NewCodec(col *model.ColumnInfo) (*Codec, error) {
	ft := &col.FieldType
	typ, err := Type(ft)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", col.Name.O, err)
	}
	c := &Codec{typ: typ, ft: ft}
	c.decode, c.encode = functions(ft)
	c.zoned = isZoned(ft)
	return c, nil
}

// Type is GMS's type of the column.
func (c *Codec) Type() sql.Type { return c.typ }

// FieldType is TiDB's type of the column.
func (c *Codec) FieldType() *types.FieldType { return c.ft }

// Zoned says that values depend on the session's time zone. In a zone with
// daylight saving time two datums can then decode to the same wall clock, and
// encoding what was decoded can give another datum.
func (c *Codec) Zoned() bool { return c.zoned }

// Ordered says that values sort in an index as comparisons order them: ENUM and
// SET sort by number and compare by text.
func (c *Codec) Ordered() bool {
	tp := c.ft.GetType()
	return tp != mysql.TypeEnum && tp != mysql.TypeSet
}

// Exact says that Encode surely loses nothing of v, a value to compare with the
// column. It errs on the side of false.
func (c *Codec) Exact(v any) bool {
	switch v.(type) {
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return mysql.IsIntegerType(c.ft.GetType())
	case string:
		return c.ft.GetType() == mysql.TypeVarchar
	case time.Time:
		return c.ft.GetType() == mysql.TypeDatetime
	}
	return false
}

// Decode returns the value that GMS holds for d. The result may share memory
// with d.
func (c *Codec) Decode(d *types.Datum, loc *time.Location) (any, error) {
	if d.IsNull() {
		return nil, nil
	}
	return c.decode(d, loc)
}

// Encode sets d to v, a value that GMS has converted to the column's type. d may
// share memory with v.
func (c *Codec) Encode(ctx context.Context, v any, loc *time.Location, d *types.Datum) error {
	if v == nil {
		d.SetNull()
		return nil
	}
	err := c.encode(v, loc, d)
	if err != errOtherType {
		return err
	}
	// The value is lazy (TEXT, BLOB), or of another Go type than GMS's own
	// conversion would yield.
	if v, err = sql.UnwrapAny(ctx, v); err != nil {
		return err
	}
	converted, inRange, err := c.typ.Convert(ctx, v)
	if err != nil {
		return err
	}
	if inRange != sql.InRange {
		return sql.ErrValueOutOfRange.New(v, c.typ)
	}
	if converted, err = sql.UnwrapAny(ctx, converted); err != nil {
		return err
	}
	if err := c.encode(converted, loc, d); err != errOtherType {
		return err
	}
	return fmt.Errorf("value of Go type %T does not fit column type %s", v, c.typ)
}

// errOtherType is returned by an encodeFunc for a Go type it does not take. It
// never leaves the package.
var errOtherType = fmt.Errorf("sqltype: other Go type")
