package rows

import (
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

// plainColumn casts the text of values that need no more than a look: integers within the range of their column, and
// text that fits into its column as it is. All others are left to TiDB's CastColumnValue, whose values these equal.
type plainColumn struct {
	kind plainKind
	// low and high are the range of a signed integer; an unsigned one has 0 and high.
	low, high int64
	length    int // characters of text
	collation string
	utf8      bool // the character set has all of Unicode
	fixed     bool // CHAR, whose trailing spaces are not stored
}

type plainKind uint8

const (
	notPlain plainKind = iota
	plainInt
	plainUint
	plainText
)

func newPlainColumn(ft *types.FieldType) plainColumn {
	switch ft.GetType() {
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong:
		if !mysql.HasUnsignedFlag(ft.GetFlag()) {
			return plainColumn{kind: plainInt, low: types.IntegerSignedLowerBound(ft.GetType()), high: types.IntegerSignedUpperBound(ft.GetType())}
		}
		return plainColumn{kind: plainUint, high: int64(min(types.IntegerUnsignedUpperBound(ft.GetType()), 1<<63-1))}
	case mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeString:
		if ft.GetCharset() == charset.CharsetBin || ft.GetFlen() <= 0 {
			return plainColumn{}
		}
		return plainColumn{
			kind: plainText, length: ft.GetFlen(), collation: ft.GetCollate(), fixed: ft.GetType() == mysql.TypeString,
			utf8: ft.GetCharset() == charset.CharsetUTF8MB4,
		}
	}
	return plainColumn{}
}

// cast sets to to the value of text, or reports that it is not plain.
func (c *plainColumn) cast(text string, to *types.Datum) bool {
	switch c.kind {
	case plainInt, plainUint:
		n, ok := plainInteger(text)
		if !ok || n < c.low || n > c.high {
			return false
		}
		if c.kind == plainUint {
			to.SetUint64(uint64(n))
		} else {
			to.SetInt64(n)
		}
		return true
	case plainText:
		// No more bytes than characters are allowed, so no more characters.
		if len(text) > c.length || c.fixed && len(text) > 0 && text[len(text)-1] == ' ' || !c.valid(text) {
			return false
		}
		to.SetString(text, c.collation)
		return true
	}
	return false
}

// valid reports whether the column's character set has the text as it is.
func (c *plainColumn) valid(text string) bool {
	if c.utf8 {
		return utf8.ValidString(text)
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainInteger returns the value of up to 18 digits, perhaps behind a minus.
func plainInteger(text string) (n int64, ok bool) {
	digits := text
	if len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = 10*n + int64(d)
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}
