package sqltype

import (
	"time"

	gms "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

func isZoned(ft *types.FieldType) bool { return ft.GetType() == mysql.TypeTimestamp }

func timeFunctions(ft *types.FieldType) (decodeFunc, encodeFunc) {
	tp, digits := ft.GetType(), fsp(ft)
	if tp == mysql.TypeNewDate {
		tp = mysql.TypeDate
	}
	if isZoned(ft) {
		return decodeTimestamp, func(v any, loc *time.Location, d *types.Datum) error {
			t, ok := v.(time.Time)
			if !ok {
				return errOtherType
			}
			if !t.Equal(gms.ZeroTime) {
				t = toUTC(t, loc)
			}
			d.SetMysqlTime(types.NewTime(coreTime(t), tp, digits))
			return nil
		}
	}
	return decodeTime, func(v any, _ *time.Location, d *types.Datum) error {
		t, ok := v.(time.Time)
		if !ok {
			return errOtherType
		}
		d.SetMysqlTime(types.NewTime(coreTime(t), tp, digits))
		return nil
	}
}

// decodeTime yields the wall clock as a UTC time, which is how GMS holds it.
func decodeTime(d *types.Datum, _ *time.Location) (any, error) {
	return wallClock(d.GetMysqlTime().CoreTime()), nil
}

func decodeTimestamp(d *types.Datum, loc *time.Location) (any, error) {
	t := wallClock(d.GetMysqlTime().CoreTime())
	if loc == time.UTC || t.Equal(gms.ZeroTime) {
		return t, nil
	}
	return fromUTC(t, loc), nil
}

// wallClock maps MySQL's zero date to GMS's. Dates with a zero month or day,
// which only a lax sql_mode of another server can have stored, normalise.
func wallClock(t types.CoreTime) time.Time {
	if t == types.ZeroCoreTime {
		return gms.ZeroTime
	}
	return time.Date(t.Year(), time.Month(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Microsecond()*1000, time.UTC)
}

func coreTime(t time.Time) types.CoreTime {
	if t.Equal(gms.ZeroTime) {
		return types.ZeroCoreTime
	}
	return types.FromDate(t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond()/1000)
}

// fromUTC returns the wall clock of an instant in loc, as a UTC time.
func fromUTC(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.Add(time.Duration(offset) * time.Second)
}

// toUTC returns the instant at which clocks in loc show the wall clock t. A
// wall clock that daylight saving time skips is taken as if it had not been
// skipped yet, one that it repeats as the first of the two.
func toUTC(t time.Time, loc *time.Location) time.Time {
	if loc == time.UTC {
		return t
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), loc).UTC()
}

func decodeDuration(d *types.Datum, _ *time.Location) (any, error) {
	return gms.Timespan(d.GetMysqlDuration().Duration / time.Microsecond), nil
}

func encodeDuration(ft *types.FieldType) encodeFunc {
	digits := fsp(ft)
	unit := time.Second
	for range digits {
		unit /= 10
	}
	return func(v any, _ *time.Location, d *types.Datum) error {
		span, ok := v.(gms.Timespan)
		if !ok {
			return errOtherType
		}
		// GMS has TIME(6) only; MySQL rounds to the declared digits.
		dur := (time.Duration(span) * time.Microsecond).Round(unit)
		d.SetMysqlDuration(types.Duration{Duration: dur, Fsp: digits})
		return nil
	}
}
