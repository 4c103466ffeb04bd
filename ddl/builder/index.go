package builder

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// Limits of TiDB's defaults.
const (
	maxIndexes  = 64
	maxColumns  = 1017
	maxKeyBytes = 3072
)

// IndexSpec is an index as a statement declares it, before it is bound to a
// version of the table.
type IndexSpec struct {
	// Name may be empty: the index is then named after its first column.
	Name      string            `json:"name"`
	Columns   []IndexColumnSpec `json:"columns"`
	Unique    bool              `json:"unique,omitempty"`
	Primary   bool              `json:"primary,omitempty"`
	Invisible bool              `json:"invisible,omitempty"`
	Comment   string            `json:"comment,omitempty"`
	Type      pmodel.IndexType  `json:"type,omitempty"`
}

// IndexColumnSpec is a key part: a column, or the beginning of one, or an
// expression. Length is types.UnspecifiedLength for the whole value.
type IndexColumnSpec struct {
	Name   string          `json:"name,omitempty"`
	Length int             `json:"length"`
	Expr   *ExpressionSpec `json:"expr,omitempty"`
}

// anonymousExpressionIndex names indexes without a name whose first part is an
// expression, as in TiDB.
const anonymousExpressionIndex = "expression_index"

func (s *IndexSpec) defaultName() string {
	if first := &s.Columns[0]; first.Expr == nil {
		return first.Name
	}
	return anonymousExpressionIndex
}

// NewIndexSpec reads an index declaration. Expressions in it are to be resolved.
func NewIndexSpec(env *Env, name string, keys []*ast.IndexPartSpecification, opt *ast.IndexOption) (*IndexSpec, error) {
	if strings.EqualFold(name, mysql.PrimaryKeyName) {
		return nil, dbterror.ErrWrongNameForIndex.FastGenByArgs(name)
	}
	if len(keys) > mysql.MaxKeyParts {
		return nil, ErrTooManyKeyParts.FastGenByArgs(mysql.MaxKeyParts)
	}
	spec := &IndexSpec{Name: name, Type: pmodel.IndexTypeBtree}
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if key.Expr != nil {
			x, err := newExpressionSpec(key.Expr, name)
			if err != nil {
				return nil, err
			}
			spec.Columns = append(spec.Columns, IndexColumnSpec{Length: types.UnspecifiedLength, Expr: x})
			continue
		}
		col := key.Column.Name
		if key.Length == types.ErrorLength {
			return nil, dbterror.ErrKeyPart0.FastGenByArgs(col.O)
		}
		if seen[col.L] {
			return nil, ErrColumnExists.FastGenByArgs(col.O)
		}
		seen[col.L] = true
		spec.Columns = append(spec.Columns, IndexColumnSpec{Name: col.O, Length: key.Length})
	}
	if opt == nil {
		return spec, nil
	}
	if opt.Global {
		return nil, Unsupported("Global Index on non-partitioned table")
	}
	switch opt.Tp {
	case pmodel.IndexTypeInvalid:
	case pmodel.IndexTypeBtree, pmodel.IndexTypeHash, pmodel.IndexTypeRtree:
		spec.Type = opt.Tp
	default:
		return nil, Unsupported("this index type")
	}
	spec.Invisible = opt.Visibility == ast.IndexVisibilityInvisible
	spec.Comment = opt.Comment
	return spec, env.checkComment(&spec.Comment, name, maxCommentLength, dbterror.ErrTooLongIndexComment)
}

// NewPrimaryKeySpec reads the declaration of a primary key.
func NewPrimaryKeySpec(env *Env, keys []*ast.IndexPartSpecification, opt *ast.IndexOption) (*IndexSpec, error) {
	for _, key := range keys {
		if key.Expr != nil {
			return nil, dbterror.ErrFunctionalIndexPrimaryKey
		}
	}
	spec, err := NewIndexSpec(env, "", keys, opt)
	if err != nil {
		return nil, err
	}
	if spec.Invisible {
		return nil, dbterror.ErrPKIndexCantBeInvisible
	}
	spec.Primary, spec.Unique = true, true
	return spec, nil
}

// NewIndex binds a declaration to a table: it checks the key parts against the
// columns and returns the index and the hidden columns of its expressions, to be
// appended to the table's, in the given state and without IDs. It does not change
// the table.
func NewIndex(tbl *model.TableInfo, spec *IndexSpec, state model.SchemaState) (*model.IndexInfo, []*model.ColumnInfo, error) {
	name := spec.Name
	switch {
	case spec.Primary:
		name = mysql.PrimaryKeyName
	case name == "":
		name = anonymousIndexName(tbl, spec.defaultName())
	}
	if err := CheckIndexName(name); err != nil {
		return nil, nil, err
	}
	cname := pmodel.NewCIStr(name)
	exists := tbl.FindIndexByName(cname.L) != nil
	switch {
	case spec.Primary && (exists || tbl.PKIsHandle):
		return nil, nil, ErrMultiplePriKey.FastGenByArgs()
	case exists:
		return nil, nil, dbterror.ErrDupKeyName.FastGenByArgs(name)
	}
	idx := &model.IndexInfo{
		Name: cname, State: state, Unique: spec.Unique, Primary: spec.Primary,
		Invisible: spec.Invisible, Comment: spec.Comment, Tp: spec.Type,
	}
	var hidden []*model.ColumnInfo
	total := 0
	for i, part := range spec.Columns {
		var col *model.ColumnInfo
		var err error
		if part.Expr == nil {
			col, err = keyColumn(tbl, spec, part.Name)
		} else if col, err = part.Expr.hiddenColumn(tbl, name, i, state, hidden); err == nil {
			hidden = append(hidden, col)
		}
		if err != nil {
			return nil, nil, err
		}
		ic, size, err := indexColumn(col, part.Length)
		if err != nil {
			return nil, nil, err
		}
		if total += size; total > maxKeyBytes {
			return nil, nil, dbterror.ErrTooLongKey.FastGenByArgs(total, maxKeyBytes)
		}
		idx.Columns = append(idx.Columns, ic)
	}
	return idx, hidden, nil
}

// keyColumn returns the column of a key part.
func keyColumn(tbl *model.TableInfo, spec *IndexSpec, name string) (*model.ColumnInfo, error) {
	col := model.FindColumnInfo(tbl.Columns, strings.ToLower(name))
	if col == nil || col.Hidden {
		return nil, dbterror.ErrKeyColumnDoesNotExits.FastGenByArgs(name)
	}
	if spec.Primary && col.IsVirtualGenerated() {
		return nil, dbterror.ErrUnsupportedOnGeneratedColumn.FastGenByArgs("Defining a virtual generated column as primary key")
	}
	return col, nil
}

// anonymousIndexName names an index after its first column, with _2, _3, ... if
// the name is taken.
func anonymousIndexName(tbl *model.TableInfo, column string) string {
	name := column
	for n := 2; strings.EqualFold(name, mysql.PrimaryKeyName) || tbl.FindIndexByName(strings.ToLower(name)) != nil; n++ {
		name = fmt.Sprintf("%s_%d", column, n)
	}
	return name
}

// indexColumn checks a key part and returns it with the number of bytes it
// counts towards the longest key.
func indexColumn(col *model.ColumnInfo, length int) (*model.IndexColumn, int, error) {
	if err := checkIndexColumn(col, length); err != nil {
		return nil, 0, err
	}
	// A prefix of the whole column is no prefix.
	if length != types.UnspecifiedLength && types.IsTypeChar(col.GetType()) && length == col.GetFlen() {
		length = types.UnspecifiedLength
	}
	size, err := indexColumnBytes(col, length)
	if err != nil {
		return nil, 0, err
	}
	return &model.IndexColumn{Name: col.Name, Offset: col.Offset, Length: length}, size, nil
}

func checkIndexColumn(col *model.ColumnInfo, length int) error {
	tp := col.GetType()
	switch {
	case col.Hidden && col.GetFlen() == 0 && types.IsTypeChar(tp):
		return dbterror.ErrWrongKeyColumnFunctionalIndex.FastGenByArgs(col.GeneratedExprString)
	case col.Hidden && tp == mysql.TypeJSON:
		return dbterror.ErrFunctionalIndexOnJSONOrGeometryFunction
	case col.Hidden && types.IsTypeBlob(tp):
		return dbterror.ErrFunctionalIndexOnBlob
	case col.GetFlen() == 0 && (types.IsTypeChar(tp) || types.IsTypeVarchar(tp)):
		return dbterror.ErrWrongKeyColumn.FastGenByArgs(col.Name)
	case tp == mysql.TypeJSON:
		return dbterror.ErrJSONUsedAsKey.FastGenByArgs(col.Name.O)
	case types.IsTypeBlob(tp) && length == types.UnspecifiedLength:
		return dbterror.ErrBlobKeyWithoutLength.FastGenByArgs(col.Name.O)
	case length == types.UnspecifiedLength:
		return nil
	case !types.IsTypePrefixable(tp):
		return dbterror.ErrIncorrectPrefixKey
	case types.IsTypeChar(tp) && col.GetFlen() < length:
		return dbterror.ErrIncorrectPrefixKey
	}
	cs, err := charset.GetCharsetInfo(col.GetCharset())
	if err != nil {
		return err
	}
	if bytes := length * cs.Maxlen; bytes > maxKeyBytes {
		return dbterror.ErrTooLongKey.FastGenByArgs(bytes, maxKeyBytes)
	}
	return nil
}

func indexColumnBytes(col *model.ColumnInfo, length int) (int, error) {
	if length == types.UnspecifiedLength {
		length = col.GetFlen()
	}
	switch tp := col.GetType(); {
	case tp == mysql.TypeBit:
		return (length + 7) / 8, nil
	case types.IsString(tp):
		cs, err := charset.GetCharsetInfo(col.GetCharset())
		if err != nil {
			return 0, err
		}
		return cs.Maxlen * length, nil
	case tp == mysql.TypeFloat && length > mysql.MaxFloatPrecisionLength:
		return mysql.DefaultLengthOfMysqlTypes[mysql.TypeDouble], nil
	case tp == mysql.TypeNewDecimal:
		// Nine decimal digits go into four bytes.
		return length/9*4 + (length%9+1)/2, nil
	case tp == mysql.TypeEnum, tp == mysql.TypeSet:
		return max(length, 0), nil
	default:
		return mysql.DefaultLengthOfMysqlTypes[tp], nil
	}
}

// AddKeyFlags marks the columns of an index as SHOW COLUMNS shows them.
func AddKeyFlags(tbl *model.TableInfo, idx *model.IndexInfo) {
	if idx.Primary {
		for _, ic := range idx.Columns {
			tbl.Columns[ic.Offset].AddFlag(mysql.PriKeyFlag)
		}
		return
	}
	first := tbl.Columns[idx.Columns[0].Offset]
	if idx.Unique && len(idx.Columns) == 1 {
		first.AddFlag(mysql.UniqueKeyFlag)
	} else {
		first.AddFlag(mysql.MultipleKeyFlag)
	}
}

// DropKeyFlags takes an index's marks away, except where another index that
// stays gives the same.
func DropKeyFlags(tbl *model.TableInfo, idx *model.IndexInfo) {
	if idx.Primary {
		for _, ic := range idx.Columns {
			tbl.Columns[ic.Offset].DelFlag(mysql.PriKeyFlag)
		}
	}
	first := tbl.Columns[idx.Columns[0].Offset]
	first.DelFlag(mysql.UniqueKeyFlag | mysql.MultipleKeyFlag)
	for _, other := range tbl.Indices {
		if other.ID != idx.ID && other.State == model.StatePublic && other.Columns[0].Offset == first.Offset {
			AddKeyFlags(tbl, other)
		}
	}
}

// CheckIndexCount refuses a table with more than 64 indexes.
func CheckIndexCount(tbl *model.TableInfo) error {
	if len(tbl.Indices) > maxIndexes {
		return dbterror.ErrTooManyKeys.FastGenByArgs(maxIndexes)
	}
	return nil
}

// CheckColumnCount refuses a table with more than 1017 columns.
func CheckColumnCount(tbl *model.TableInfo) error {
	if len(tbl.Columns) > maxColumns {
		return dbterror.ErrTooManyFields
	}
	return nil
}

// CheckIndexName refuses a name that no index can have.
func CheckIndexName(name string) error {
	if utf8.RuneCountInString(name) > mysql.MaxIndexIdentifierLen {
		return dbterror.ErrTooLongIdent.FastGenByArgs(name)
	}
	return nil
}
