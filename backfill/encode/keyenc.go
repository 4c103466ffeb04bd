package encode

import (
	"time"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
)

// keyKind is how a column is encoded in an index key.
type keyKind uint8

const (
	// keyLibrary goes through datums and codec.EncodeKey: the generic path, right for
	// every type and ten times slower.
	keyLibrary keyKind = iota
	keyInt
	keyUint
	keyFloat32
	keyFloat64
	keyTime
	keyDuration
	keyEnum
	keySet
	// keyBytes takes the bytes of a string as they are.
	keyBytes
	// keyPadded leaves trailing spaces out, as collations with PAD SPACE do.
	keyPadded
)

// The flags that codec puts before a value. It does not export them.
var (
	intFlag      = flagOf(types.NewIntDatum(0))
	uintFlag     = flagOf(types.NewUintDatum(0))
	floatFlag    = flagOf(types.NewFloat64Datum(0))
	bytesFlag    = flagOf(types.NewBytesDatum([]byte{0}))
	durationFlag = flagOf(types.NewDurationDatum(types.ZeroDuration))
)

func flagOf(d types.Datum) byte {
	b, err := codec.EncodeKey(time.UTC, nil, d)
	if err != nil {
		panic(err) // constants of every build; cannot fail in one that starts
	}
	return b[0]
}

// keyColumn encodes one column of an index key.
type keyColumn struct {
	kind     keyKind
	index    *model.IndexColumn
	info     *model.ColumnInfo
	position int // in the batch
	column   *chunk.Column
	bytewise bool // a prefix length counts bytes, not characters
}

// newKeyColumn returns the encoder of an index column that is found at a position
// of batches.
func newKeyColumn(ic *model.IndexColumn, info *model.ColumnInfo, position int) keyColumn {
	c := keyColumn{index: ic, info: info, position: position, kind: keyKindOf(info)}
	c.bytewise = info.GetCharset() == charset.CharsetBin || info.GetCharset() == charset.CharsetASCII
	return c
}

func keyKindOf(info *model.ColumnInfo) keyKind {
	switch info.GetType() {
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong:
		if mysql.HasUnsignedFlag(info.GetFlag()) {
			return keyUint
		}
		return keyInt
	case mysql.TypeYear:
		return keyInt
	case mysql.TypeFloat:
		return keyFloat32
	case mysql.TypeDouble:
		return keyFloat64
	case mysql.TypeDate, mysql.TypeDatetime, mysql.TypeTimestamp:
		return keyTime
	case mysql.TypeDuration:
		return keyDuration
	case mysql.TypeEnum:
		return keyEnum
	case mysql.TypeSet:
		return keySet
	case mysql.TypeString, mysql.TypeVarchar, mysql.TypeVarString,
		mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob:
		return stringKind(info.GetCollate())
	default:
		return keyLibrary
	}
}

func stringKind(collation string) keyKind {
	if !collate.NewCollationEnabled() {
		return keyBytes
	}
	switch collation {
	case charset.CollationBin, "utf8mb4_0900_bin":
		return keyBytes
	case charset.CollationASCII, charset.CollationLatin1, charset.CollationUTF8, charset.CollationUTF8MB4:
		return keyPadded
	default:
		return keyLibrary
	}
}

// bind makes the column read from rows.
func (c *keyColumn) bind(rows *chunk.Chunk) { c.column = rows.Column(c.position) }

// append appends the key of row i.
func (c *keyColumn) append(b []byte, rows *chunk.Chunk, i int) ([]byte, error) {
	if c.column.IsNull(i) {
		return append(b, codec.NilFlag), nil
	}
	switch c.kind {
	case keyInt:
		return codec.EncodeInt(append(b, intFlag), c.column.GetInt64(i)), nil
	case keyUint:
		return codec.EncodeUint(append(b, uintFlag), c.column.GetUint64(i)), nil
	case keyFloat32:
		return codec.EncodeFloat(append(b, floatFlag), float64(c.column.GetFloat32(i))), nil
	case keyFloat64:
		return codec.EncodeFloat(append(b, floatFlag), c.column.GetFloat64(i)), nil
	case keyTime:
		packed, err := c.column.GetTime(i).ToPackedUint()
		return codec.EncodeUint(append(b, uintFlag), packed), err
	case keyDuration:
		return codec.EncodeInt(append(b, durationFlag), int64(c.column.GetDuration(i, 0).Duration)), nil
	case keyEnum:
		return codec.EncodeUint(append(b, uintFlag), c.column.GetEnum(i).Value), nil
	case keySet:
		return codec.EncodeUint(append(b, uintFlag), c.column.GetSet(i).Value), nil
	case keyBytes, keyPadded:
		if v, ok := c.prefix(c.column.GetBytes(i)); ok {
			if c.kind == keyPadded {
				v = trimSpaces(v)
			}
			return codec.EncodeBytes(append(b, bytesFlag), v), nil
		}
	}
	var d types.Datum
	c.datum(rows, i, &d)
	return codec.EncodeKey(time.UTC, b, d)
}

// datum sets d to the indexed value of row i, cut to the prefix length.
func (c *keyColumn) datum(rows *chunk.Chunk, i int, d *types.Datum) {
	rows.GetRow(i).DatumWithBuffer(c.position, &c.info.FieldType, d)
	tablecodec.TruncateIndexValue(d, c.index, c.info)
}

// prefix cuts v to the prefix length of the index. It leaves text that is not
// valid UTF-8 to the library.
func (c *keyColumn) prefix(v []byte) (cut []byte, ok bool) {
	n := c.index.Length
	if n == types.UnspecifiedLength || len(v) <= n {
		return v, true
	}
	if c.bytewise {
		return v[:n], true
	}
	at := 0
	for range n {
		if at == len(v) {
			return v, true
		}
		r, size := utf8.DecodeRune(v[at:])
		if r == utf8.RuneError && size <= 1 {
			return nil, false
		}
		at += size
	}
	return v[:at], true
}

func trimSpaces(v []byte) []byte {
	for len(v) > 0 && v[len(v)-1] == ' ' {
		v = v[:len(v)-1]
	}
	return v
}
