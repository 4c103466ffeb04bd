package genexpr

import (
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/sql/sqlerr"
)

// convert makes a value of GMS one of the column's type, as an INSERT in strict
// mode does.
func (x *compiled) convert(ctx *gms.Context, v any) (d types.Datum, err error) {
	if v, err = gms.UnwrapAny(ctx, v); err != nil || v == nil {
		return d, err
	}
	inRange := gms.ConvertInRange(gms.InRange)
	if number, ok := x.codec.Type().(gms.RoundingNumberType); ok {
		v, inRange, err = number.ConvertRound(ctx, v)
	} else {
		v, inRange, err = x.codec.Type().Convert(ctx, v)
	}
	switch {
	case gmstypes.ErrLengthBeyondLimit.Is(err):
		return d, x.tooLong()
	case err != nil:
		return d, err
	case inRange != gms.InRange:
		return d, sqlerr.New(errno.ErrWarnDataOutOfRange, x.col.Name.O, 1)
	}
	return d, x.codec.Encode(ctx, v, time.UTC, &d)
}

func (x *compiled) tooLong() error {
	if x.col.Hidden {
		return sqlerr.New(errno.ErrFunctionalIndexDataIsTooLong, x.indexName())
	}
	return sqlerr.New(errno.ErrDataTooLong, x.col.Name.O, 1)
}

// indexName is the index that a hidden column belongs to.
func (x *compiled) indexName() string {
	for _, idx := range x.tbl.Indices {
		for _, ic := range idx.Columns {
			if ic.Offset == x.col.Offset {
				return idx.Name.O
			}
		}
	}
	return x.col.Name.O
}

// evalError is an error of an evaluation, with its MySQL number.
type evalError struct{ *mysql.SQLError }

// Error is the text for a client.
func (e *evalError) Error() string { return e.Message }

// MySQLCode is the error's number.
func (e *evalError) MySQLCode() uint16 { return uint16(e.Num) }

// Unwrap returns GMS's error.
func (e *evalError) Unwrap() error { return e.SQLError }

func coded(err error) error {
	if err == nil {
		return nil
	}
	return &evalError{sqlerr.Translate(err)}
}
