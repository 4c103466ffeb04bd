package sql

import (
	"fmt"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/sql/genexpr"
	"fastddl/sql/sqltype"
)

// What go-mysql-server sees of generated columns is the expression, so that it
// refuses values for them and finds indexes on the expressions of filters. All
// of them look stored to it: package table computes virtual ones when a row is
// read, and all again when a row is written, whatever arrives here.

// generate describes a column as a generated one if it is.
func generate(col *gms.Column, info *model.ColumnInfo) error {
	if !info.IsGenerated() {
		return nil
	}
	text, err := genexpr.Text(info.GeneratedExprString)
	if err != nil {
		return err
	}
	col.Generated = gms.NewUnresolvedColumnDefaultValue("(" + text + ")")
	col.Extra = "VIRTUAL GENERATED"
	if info.GeneratedStored {
		col.Extra = "STORED GENERATED"
	}
	return nil
}

// hiddenColumn is a hidden column of an expression index. Rows have no values
// for it.
type hiddenColumn struct {
	info  *model.ColumnInfo
	codec *sqltype.Codec
	// collation is the session's at the time of the declaration if it decides how
	// values compare, else 0.
	collation gms.CollationID
}

func (d *tableDef) addHiddenColumns() error {
	compiler, ok := d.catalog.Expressions.(*genexpr.Compiler)
	if !ok {
		return nil
	}
	for _, idx := range d.table.PublicIndexes() {
		for i, part := range idx.Columns {
			info := d.info.Columns[part.Offset]
			if !info.Hidden || info.State != model.StatePublic {
				continue
			}
			// With the prefix of hidden columns in front go-mysql-server would refuse
			// the upserts that it computes the column in.
			name := fmt.Sprintf("%s!%d%s%d", idx.Name.L, i, gms.HiddenSystemColumnPrefix, d.info.ID)
			if err := d.addIndexed(compiler, name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *tableDef) addIndexed(compiler *genexpr.Compiler, name string, info *model.ColumnInfo) error {
	codec, err := sqltype.NewCodec(info)
	if err != nil {
		return err
	}
	h := &hiddenColumn{info: info, codec: codec}
	d.hidden = append(d.hidden, h)
	col := d.addHidden(name, codec.Type())
	return compiler.Resolve(d.info, info, func(ctx *gms.Context, expr gms.Expression, sessionCollated bool) error {
		if sessionCollated && gmstypes.IsText(codec.Type()) {
			if h.collation, err = sqltype.Collation(info.GetCollate()); err != nil {
				return err
			}
		}
		x, err := newIndexExpr(ctx, expr)
		if err != nil {
			return err
		}
		col.Generated = &gms.ColumnDefaultValue{Expr: x, OutType: col.Type, ReturnNil: true, Parenthesized: true}
		return nil
	})
}

// keyPart returns the position in the schema of a column of an index, and its
// codec; false for a column that is not public.
func (d *tableDef) keyPart(part *model.IndexColumn) (ordinal int, codec *sqltype.Codec, collation gms.CollationID, ok bool) {
	info := d.info.Columns[part.Offset]
	if !info.Hidden {
		ordinal, ok = d.ordinals[info.Name.L]
		if !ok {
			return 0, nil, 0, false
		}
		return ordinal, d.codecs[ordinal], 0, true
	}
	first := len(d.schema) - len(d.hidden)
	for i, h := range d.hidden {
		if h.info == info {
			return first + i, h.codec, h.collation, true
		}
	}
	return 0, nil, 0, false
}

// hiddenAt returns the hidden column at a position of the schema, nil for other
// columns.
func (d *tableDef) hiddenAt(ordinal int) *hiddenColumn {
	if first := len(d.schema) - len(d.hidden); ordinal >= first {
		return d.hidden[ordinal-first]
	}
	return nil
}

// hasValue says that rows have a value for the column at a position of the
// schema: it is a column of the table's, or the row ID.
func (d *tableDef) hasValue(ordinal int) bool { return d.hiddenAt(ordinal) == nil }

// usable says whether comparisons in a session are those by which the index is
// ordered.
func (x *index) usable(s *Session) bool { return x.collation == 0 || x.collation == s.GetCollation() }
