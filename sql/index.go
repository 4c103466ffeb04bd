package sql

import (
	"slices"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/sql/sqltype"
)

// index is a key of a table as go-mysql-server sees it.
type index struct {
	def  *tableDef
	info *model.IndexInfo
	// clustered says that the rows themselves are stored in the key's order.
	clustered bool
	// unsignedHandle says that the rows are stored in the order of an unsigned
	// integer.
	unsignedHandle bool
	// hidden says that the key has a column that is not a public one.
	hidden bool

	// ordinals and codecs belong to the key's columns.
	ordinals []int
	codecs   []*sqltype.Codec

	// extended and extendedTypes have the columns of the clustered primary key
	// behind those of expressions and expressionTypes.
	expressions, extended          []string
	expressionTypes, extendedTypes []gms.ColumnExpressionType
	// prefixLengths is nil if no column is indexed by a prefix only.
	prefixLengths []uint16
	// collation is that of sessions which compare the index's expressions as the
	// index does; 0 if all do.
	collation gms.CollationID
}

var (
	_ gms.Index         = (*index)(nil)
	_ gms.OrderedIndex  = (*index)(nil)
	_ gms.ExtendedIndex = (*index)(nil)
)

func newIndex(def *tableDef, info *model.IndexInfo) *index {
	x := &index{
		def:       def,
		info:      info,
		clustered: info.Primary && !def.hasRowID,
	}
	prefixed := false
	for _, col := range info.Columns {
		ordinal, codec, collation, ok := def.keyPart(col)
		if !ok {
			x.hidden = true
			return x
		}
		if collation != 0 {
			x.collation = collation
		}
		x.add(ordinal, codec)
		length := uint16(0)
		if col.Length != types.UnspecifiedLength {
			length, prefixed = uint16(col.Length), true
		}
		x.prefixLengths = append(x.prefixLengths, length)
	}
	if !prefixed {
		x.prefixLengths = nil
	}
	x.unsignedHandle = x.clustered && def.info.PKIsHandle && mysql.HasUnsignedFlag(x.codecs[0].FieldType().GetFlag())
	x.extend()
	return x
}

func (x *index) add(ordinal int, codec *sqltype.Codec) {
	col := x.def.schema[ordinal]
	name := col.Source + "." + col.Name
	x.ordinals = append(x.ordinals, ordinal)
	x.codecs = append(x.codecs, codec)
	x.extended = append(x.extended, name)
	x.extendedTypes = append(x.extendedTypes, gms.ColumnExpressionType{Expression: name, Type: col.Type})
}

// extend appends the clustered primary key, which every entry holds.
func (x *index) extend() {
	n := len(x.ordinals)
	if !x.def.hasRowID && !x.info.Primary {
		for _, ordinal := range x.def.pk.PkOrdinals {
			if !slices.Contains(x.ordinals, ordinal) {
				x.add(ordinal, x.def.codecs[ordinal])
			}
		}
	}
	x.ordinals, x.codecs = x.ordinals[:n], x.codecs[:n]
	x.expressions, x.expressionTypes = x.extended[:n:n], x.extendedTypes[:n:n]
}

// ID implements sql.Index.
func (x *index) ID() string {
	if x.info.Primary {
		return mysql.PrimaryKeyName
	}
	return x.info.Name.O
}

// String names the index in plans.
func (x *index) String() string { return x.ID() }

// Database implements sql.Index.
func (x *index) Database() string { return x.def.db }

// Table implements sql.Index.
func (x *index) Table() string { return x.def.info.Name.O }

// Expressions implements sql.Index.
func (x *index) Expressions() []string { return x.expressions }

// ExtendedExpressions implements sql.ExtendedIndex.
func (x *index) ExtendedExpressions(*gms.Context) []string { return x.extended }

// ColumnExpressionTypes implements sql.Index.
func (x *index) ColumnExpressionTypes(*gms.Context) []gms.ColumnExpressionType {
	return x.expressionTypes
}

// ExtendedColumnExpressionTypes implements sql.ExtendedIndex.
func (x *index) ExtendedColumnExpressionTypes(*gms.Context) []gms.ColumnExpressionType {
	return x.extendedTypes
}

// IsUnique implements sql.Index.
func (x *index) IsUnique() bool { return x.info.Unique || x.info.Primary }

// IsSpatial implements sql.Index.
func (x *index) IsSpatial() bool { return false }

// IsFullText implements sql.Index.
func (x *index) IsFullText() bool { return false }

// IsVector implements sql.Index.
func (x *index) IsVector() bool { return false }

// Comment implements sql.Index.
func (x *index) Comment() string { return x.info.Comment }

// IndexType implements sql.Index.
func (x *index) IndexType() string { return "BTREE" }

// IsGenerated implements sql.Index.
func (x *index) IsGenerated() bool { return false }

// CanSupport implements sql.Index.
func (x *index) CanSupport(*gms.Context, ...gms.Range) bool { return !x.hidden }

// CanSupportOrderBy implements sql.Index. It is asked for vector indexes only.
func (x *index) CanSupportOrderBy(gms.Expression) bool { return false }

// PrefixLengths implements sql.Index.
func (x *index) PrefixLengths() []uint16 { return x.prefixLengths }

// Order implements sql.OrderedIndex. An index over prefixes does not order the
// whole values.
func (x *index) Order(*gms.Context) gms.IndexOrder {
	if x.prefixLengths != nil {
		return gms.IndexOrderNone
	}
	return gms.IndexOrderAsc
}

// Reversible implements sql.OrderedIndex.
func (x *index) Reversible(*gms.Context) bool { return x.prefixLengths == nil }

// invisibleIndex is an index that the optimizer does not get to see. Its driver
// is unknown to go-mysql-server, which therefore shows it as not visible.
type invisibleIndex struct{ shownIndex }

var _ gms.DriverIndex = invisibleIndex{}

// Driver implements sql.DriverIndex.
func (invisibleIndex) Driver() string { return "invisible" }
