package sql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	parsertypes "github.com/pingcap/tidb/pkg/parser/types"
	"github.com/pingcap/tidb/pkg/types"
)

// showCreate returns the statement that creates the table, in MySQL's words.
// Whether the primary key is clustered stands in a comment that MySQL skips.
func (t *Table) showCreate(ctx *gms.Context) (string, error) {
	info := t.def.info
	var parts []string
	for i, col := range t.def.table.Columns() {
		if col.Hidden {
			continue
		}
		text, err := t.columnText(ctx, i, col)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	if pk := t.def.primaryKey(); pk != nil {
		kind := "CLUSTERED"
		if t.def.hasRowID {
			kind = "NONCLUSTERED"
		}
		parts = append(parts, "PRIMARY KEY "+t.keyParts(pk)+" /*T![clustered_index] "+kind+" */")
	}
	for _, idx := range t.def.table.PublicIndexes() {
		if !idx.Primary {
			parts = append(parts, t.keyText(idx))
		}
	}
	var b strings.Builder
	b.WriteString("CREATE TABLE " + quoteName(info.Name.O) + " (\n  ")
	b.WriteString(strings.Join(parts, ",\n  "))
	b.WriteString("\n) ENGINE=InnoDB")
	if t.def.autoInc >= 0 {
		next, err := t.PeekNextAutoIncrementValue(ctx)
		if err != nil {
			return "", err
		}
		if next > 1 {
			b.WriteString(" AUTO_INCREMENT=" + strconv.FormatUint(next, 10))
		}
	}
	b.WriteString(" DEFAULT CHARSET=" + t.def.collation.CharacterSet().Name() + " COLLATE=" + t.def.collation.Name())
	if info.Comment != "" {
		b.WriteString(" COMMENT=" + quoteText(info.Comment))
	}
	return b.String(), nil
}

func (t *Table) columnText(ctx *gms.Context, i int, col *model.ColumnInfo) (string, error) {
	var b strings.Builder
	b.WriteString(quoteName(col.Name.O) + " " + typeText(&col.FieldType))
	flag := col.GetFlag()
	if mysql.HasUnsignedFlag(flag) && col.GetType() != mysql.TypeBit && col.GetType() != mysql.TypeYear {
		b.WriteString(" unsigned")
	}
	if mysql.HasZerofillFlag(flag) {
		b.WriteString(" zerofill")
	}
	if hasCollation(col) && col.GetCollate() != t.def.collation.Name() {
		b.WriteString(" CHARACTER SET " + col.GetCharset() + " COLLATE " + col.GetCollate())
	}
	b.WriteString(generatedText(col))
	notNull := mysql.HasNotNullFlag(flag)
	switch {
	case notNull:
		b.WriteString(" NOT NULL")
	case col.GetType() == mysql.TypeTimestamp:
		b.WriteString(" NULL")
	}
	def, err := t.defaultText(ctx, i, col)
	if err != nil {
		return "", err
	}
	b.WriteString(def)
	if mysql.HasOnUpdateNowFlag(flag) {
		b.WriteString(" ON UPDATE " + nowText(&col.FieldType))
	}
	if mysql.HasAutoIncrementFlag(flag) {
		b.WriteString(" AUTO_INCREMENT")
	}
	if col.Comment != "" {
		b.WriteString(" COMMENT " + quoteText(col.Comment))
	}
	return b.String(), nil
}

// generatedText returns what a column is computed by with a space before it, or
// nothing.
func generatedText(col *model.ColumnInfo) string {
	switch {
	case !col.IsGenerated():
		return ""
	case col.GeneratedStored:
		return " GENERATED ALWAYS AS (" + col.GeneratedExprString + ") STORED"
	}
	return " GENERATED ALWAYS AS (" + col.GeneratedExprString + ") VIRTUAL"
}

// defaultText returns a column's DEFAULT clause with a space before it, or
// nothing.
func (t *Table) defaultText(ctx *gms.Context, i int, col *model.ColumnInfo) (string, error) {
	flag := col.GetFlag()
	value := col.GetDefaultValue()
	switch {
	case mysql.HasAutoIncrementFlag(flag), col.IsGenerated():
		return "", nil
	case value == nil:
		if mysql.HasNotNullFlag(flag) || types.IsTypeBlob(col.GetType()) || col.GetType() == mysql.TypeJSON {
			return "", nil
		}
		return " DEFAULT NULL", nil
	case col.DefaultIsExpr:
		return fmt.Sprintf(" DEFAULT (%v)", value), nil
	}
	text := fmt.Sprint(value)
	switch col.GetType() {
	case mysql.TypeBit:
		var n uint64
		for j := range len(text) {
			n = n<<8 | uint64(text[j])
		}
		return " DEFAULT b'" + strconv.FormatUint(n, 2) + "'", nil
	case mysql.TypeTimestamp, mysql.TypeDatetime, mysql.TypeDate:
		if strings.HasPrefix(strings.ToUpper(text), strings.ToUpper(ast.CurrentTimestamp)) {
			return " DEFAULT " + nowText(&col.FieldType), nil
		}
	}
	if t.def.codecs[i].Zoned() {
		// Stored in UTC, shown as the session's clock has it.
		v, err := t.def.schema[i].Default.Eval(ctx, nil)
		if err != nil {
			return "", err
		}
		if at, ok := v.(time.Time); ok && !at.Equal(gmstypes.ZeroTime) {
			text = at.Format("2006-01-02 15:04:05.000000")[:dateTimeLen(col.GetDecimal())]
		}
	}
	return " DEFAULT " + quoteText(text), nil
}

// dateTimeLen is the length of a date and time with so many fractional digits.
func dateTimeLen(digits int) int {
	if digits <= 0 {
		return len("2006-01-02 15:04:05")
	}
	return len("2006-01-02 15:04:05.") + digits
}

func nowText(ft *types.FieldType) string {
	if ft.GetDecimal() > 0 {
		return fmt.Sprintf("CURRENT_TIMESTAMP(%d)", ft.GetDecimal())
	}
	return "CURRENT_TIMESTAMP"
}

// typeText is the type as MySQL 8 prints it: integers without a display width.
func typeText(ft *types.FieldType) string {
	text := ft.CompactStr()
	switch tp := ft.GetType(); {
	case tp == mysql.TypeYear:
		return "year"
	case mysql.IsIntegerType(tp):
		if tp == mysql.TypeTiny && ft.GetFlen() == 1 || mysql.HasZerofillFlag(ft.GetFlag()) {
			return text
		}
		name, _, _ := strings.Cut(text, "(")
		return name
	}
	return text
}

func hasCollation(col *model.ColumnInfo) bool {
	return parsertypes.HasCharset(&col.FieldType)
}

func (t *Table) keyText(idx *model.IndexInfo) string {
	text := "KEY "
	if idx.Unique {
		text = "UNIQUE KEY "
	}
	text += quoteName(idx.Name.O) + " " + t.keyParts(idx)
	if idx.Comment != "" {
		text += " COMMENT " + quoteText(idx.Comment)
	}
	if idx.Invisible {
		text += " /*!80000 INVISIBLE */"
	}
	return text
}

func (t *Table) keyParts(idx *model.IndexInfo) string {
	parts := make([]string, len(idx.Columns))
	for i, part := range idx.Columns {
		col := t.def.info.Columns[part.Offset]
		switch {
		case col.Hidden:
			parts[i] = "(" + col.GeneratedExprString + ")"
		case part.Length != types.UnspecifiedLength:
			parts[i] = fmt.Sprintf("%s(%d)", quoteName(col.Name.O), part.Length)
		default:
			parts[i] = quoteName(col.Name.O)
		}
	}
	return "(" + strings.Join(parts, ",") + ")"
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

var textQuoter = strings.NewReplacer("'", "''", "\\", "\\\\", "\n", "\\n", "\r", "\\r", "\x00", "\\0")

func quoteText(text string) string { return "'" + textQuoter.Replace(text) + "'" }
