package model

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

var words = []string{"", "a", "A", "ab", "aB ", "ab  ", "abcdef", "Äb", "äB", "日本語", "zzzzzzzzzz"}

// idValue is the id column's value for one of the ids 0, 1, 2, ... Of an
// unsigned column every other one is above the largest signed integer.
func idValue(col *model.ColumnInfo, id int64) types.Datum {
	if mysql.HasUnsignedFlag(col.GetFlag()) && col.GetType() == mysql.TypeLonglong {
		return types.NewUintDatum(uint64(id) | uint64(id&1)<<63)
	}
	return types.NewIntDatum(id)
}

// randomRow is a row of the table with the given id.
func randomRow(rng *rand.Rand, tbl *model.TableInfo, id int64) ([]types.Datum, error) {
	cols := tbl.Cols()
	row := make([]types.Datum, len(cols))
	for i, col := range cols {
		if col.Name.L == "id" {
			row[i] = idValue(col, id)
			continue
		}
		var err error
		if row[i], err = randomValue(rng, col); err != nil {
			return nil, fmt.Errorf("value of column %s: %w", col.Name.O, err)
		}
	}
	return row, nil
}

func randomValue(rng *rand.Rand, col *model.ColumnInfo) (types.Datum, error) {
	var d types.Datum
	if !mysql.HasNotNullFlag(col.GetFlag()) && oneIn(rng, 6) {
		return d, nil
	}
	var err error
	switch tp := col.GetType(); tp {
	case mysql.TypeLong, mysql.TypeLonglong:
		d.SetInt64(randomInt(rng, col.Name.L))
	case mysql.TypeNewDecimal:
		dec := new(types.MyDecimal)
		digits := col.GetDecimal()
		err = dec.FromString([]byte(fmt.Sprintf("%d.%0*d", rng.Intn(30)-15, digits, rng.Intn(5))))
		d.SetMysqlDecimal(dec)
		d.SetLength(col.GetFlen())
		d.SetFrac(digits)
	case mysql.TypeDouble:
		d.SetFloat64(float64(rng.Intn(40)-20) / 8)
	case mysql.TypeDatetime, mysql.TypeTimestamp, mysql.TypeDate:
		d.SetMysqlTime(randomTime(rng, tp, max(col.GetDecimal(), 0)))
	case mysql.TypeEnum:
		var e types.Enum
		e, err = types.ParseEnumValue(col.GetElems(), uint64(1+rng.Intn(len(col.GetElems()))))
		d.SetMysqlEnum(e, col.GetCollate())
	default:
		d.SetString(pick(rng, words...), col.GetCollate())
	}
	return d, err
}

// randomInt is one of few values, but for n, whose values are mostly different.
func randomInt(rng *rand.Rand, column string) int64 {
	switch {
	case column != "n":
		return int64(rng.Intn(20))
	case oneIn(rng, 20):
		return int64(rng.Intn(1000))
	}
	return rng.Int63()
}

func randomTime(rng *rand.Rand, tp byte, fsp int) types.Time {
	day, hour, micro := 1+rng.Intn(28), rng.Intn(24), 0
	if tp == mysql.TypeDate {
		hour = 0
	}
	if fsp > 0 {
		micro = rng.Intn(3) * 1000
	}
	return types.NewTime(types.FromDate(2020+rng.Intn(3), 1+rng.Intn(12), day, hour, 0, 0, micro), tp, fsp)
}

// rowText prints a row so that different rows give different texts.
func rowText(row []types.Datum) (string, error) {
	var b strings.Builder
	for i := range row {
		if i > 0 {
			b.WriteString(", ")
		}
		if row[i].IsNull() {
			b.WriteString("NULL")
			continue
		}
		s, err := row[i].ToString()
		if err != nil {
			return "", fmt.Errorf("print value %d: %w", i, err)
		}
		b.WriteString(strconv.Quote(s))
	}
	return b.String(), nil
}
