package sqltype

import (
	"fmt"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/pingcap/tidb/pkg/types"
)

// maxInt64Digits is the number of decimal digits that surely fit an int64.
const maxInt64Digits = 18

func decodeDecimal(d *types.Datum, _ *time.Location) (any, error) {
	text := d.GetMysqlDecimal().ToString()
	out := new(apd.Decimal)
	digits := text[:0]
	point := -1
	for _, c := range text {
		switch c {
		case '-':
			out.Negative = true
		case '.':
			point = len(digits)
		default:
			digits = append(digits, c)
		}
	}
	if point >= 0 {
		out.Exponent = int32(point - len(digits))
	}
	if len(digits) <= maxInt64Digits {
		var n int64
		for _, c := range digits {
			n = n*10 + int64(c-'0')
		}
		out.Coeff.SetInt64(n)
	} else if _, ok := out.Coeff.SetString(string(digits), 10); !ok {
		return nil, fmt.Errorf("decimal %q is malformed", text)
	}
	// MySQL knows no negative zero.
	out.Negative = out.Negative && out.Coeff.Sign() != 0
	return out, nil
}

func encodeDecimal(ft *types.FieldType) encodeFunc {
	precision, scale := ft.GetFlen(), max(ft.GetDecimal(), 0)
	return func(v any, _ *time.Location, d *types.Datum) error {
		x, ok := v.(*apd.Decimal)
		if !ok {
			return errOtherType
		}
		if x.Form != apd.Finite || x.Negative && x.Coeff.Sign() != 0 && isUnsigned(ft) {
			return outOfRange(v, ft)
		}
		var buf [96]byte
		dec := new(types.MyDecimal)
		if err := dec.FromString(x.Append(buf[:0], 'f')); err != nil {
			return fmt.Errorf("decimal %s: %w", x, err)
		}
		// The declared scale is part of the encoding, also for 1 in (10,2).
		if int(dec.GetDigitsFrac()) != scale {
			if err := dec.Round(dec, scale, types.ModeHalfUp); err != nil {
				return fmt.Errorf("decimal %s: %w", x, err)
			}
		}
		d.SetMysqlDecimal(dec)
		d.SetLength(precision)
		d.SetFrac(scale)
		return nil
	}
}
