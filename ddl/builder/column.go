package builder

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// maxCommentLength is the longest comment of a column or index in bytes.
const maxCommentLength = 1024

// columnBuilder builds one column of CREATE TABLE or ADD COLUMN.
type columnBuilder struct {
	env *Env
	def *ast.ColumnDef
	col *model.ColumnInfo
	// inPrimaryKey says that a PRIMARY KEY clause outside of the column names it.
	inPrimaryKey bool

	hasDefault, null, onUpdateNow bool
	constraints                   []*ast.Constraint
}

// build returns the column, public and without an ID, and the keys that the
// column's own options declare.
func (b *columnBuilder) build(table charsetPair) (*model.ColumnInfo, []*ast.Constraint, error) {
	name := b.def.Name.Name
	if err := checkColumnName(name.O); err != nil {
		return nil, nil, err
	}
	ft, err := b.fieldType(table)
	if err != nil {
		return nil, nil, err
	}
	b.col = &model.ColumnInfo{
		Name: name, FieldType: *ft, State: model.StatePublic, Version: model.CurrLatestColumnInfoVersion,
	}
	for _, opt := range b.def.Options {
		if err := b.option(opt); err != nil {
			return nil, nil, err
		}
	}
	if err := b.finish(); err != nil {
		return nil, nil, err
	}
	return b.col, b.constraints, nil
}

func checkColumnName(name string) error {
	if utf8.RuneCountInString(name) > mysql.MaxColumnNameLength {
		return dbterror.ErrTooLongIdent.FastGenByArgs(name)
	}
	if badIdentifier(name) || strings.EqualFold(name, model.ExtraHandleName.L) {
		return dbterror.ErrWrongColumnName.FastGenByArgs(name)
	}
	return nil
}

// badIdentifier says that a name is empty or ends in a space.
func badIdentifier(name string) bool {
	return name == "" || strings.TrimRight(name, " ") != name
}

func needsCharset(tp byte) bool {
	return types.IsString(tp) || tp == mysql.TypeEnum || tp == mysql.TypeSet
}

func (b *columnBuilder) fieldType(table charsetPair) (*types.FieldType, error) {
	ft := b.def.Tp.Clone()
	if err := checkType(b.def.Name.Name.O, ft); err != nil {
		return nil, err
	}
	cs, err := columnCharset(b.def, table)
	if err != nil {
		return nil, err
	}
	if !needsCharset(ft.GetType()) {
		cs = charsetPair{charset.CharsetBin, charset.CollationBin}
	}
	ft.SetCharset(cs.charset)
	ft.SetCollate(cs.collation)

	flen, decimal := mysql.GetDefaultFieldLengthAndDecimal(ft.GetType())
	if ft.GetDecimal() == types.UnspecifiedLength {
		ft.SetDecimal(decimal)
	}
	if ft.GetFlen() != types.UnspecifiedLength {
		if err := adjustBlobType(ft); err != nil {
			return nil, err
		}
	} else {
		// Unsigned integers but BIGINT have no room for a sign.
		if mysql.HasUnsignedFlag(ft.GetFlag()) && mysql.IsIntegerType(ft.GetType()) && ft.GetType() != mysql.TypeLonglong {
			flen--
		}
		ft.SetFlen(flen)
	}
	return ft, b.checkVarcharLength(ft)
}

// checkVarcharLength refuses a VARCHAR that is too long, or makes it a BLOB or
// TEXT when the SQL mode is not strict.
func (b *columnBuilder) checkVarcharLength(ft *types.FieldType) error {
	if ft.GetType() != mysql.TypeVarchar {
		return nil
	}
	name := b.def.Name.Name.O
	err := types.IsVarcharTooBigFieldLength(ft.GetFlen(), name, ft.GetCharset())
	if err == nil || b.env.strict() {
		return err
	}
	ft.SetType(mysql.TypeBlob)
	if err := adjustBlobType(ft); err != nil {
		return err
	}
	from, to := "VARCHAR", "TEXT"
	if ft.GetCharset() == charset.CharsetBin {
		from, to = "VARBINARY", "BLOB"
	}
	b.env.Warn(dbterror.ErrAutoConvert.FastGenByArgs(name, from, to))
	return nil
}

// adjustBlobType turns BLOB(n) and TEXT(n) into the smallest type that holds
// n characters.
func adjustBlobType(ft *types.FieldType) error {
	if ft.GetType() != mysql.TypeBlob {
		return nil
	}
	cs, err := charset.GetCharsetInfo(ft.GetCharset())
	if err != nil {
		return err
	}
	length := ft.GetFlen() * cs.Maxlen
	for _, t := range []struct {
		tp  byte
		max int
	}{
		{mysql.TypeTinyBlob, math.MaxUint8},
		{mysql.TypeBlob, math.MaxUint16},
		{mysql.TypeMediumBlob, 1<<24 - 1},
		{mysql.TypeLongBlob, math.MaxUint32},
	} {
		if length <= t.max {
			ft.SetType(t.tp)
			ft.SetFlen(t.max)
			return nil
		}
	}
	return nil
}

// checkType checks what a column type says of itself, before defaults are
// filled in.
func checkType(name string, ft *types.FieldType) error {
	flen, decimal := ft.GetFlen(), ft.GetDecimal()
	if flen > math.MaxUint32 {
		return types.ErrTooBigDisplayWidth.FastGenByArgs(name, math.MaxUint32)
	}
	switch ft.GetType() {
	case mysql.TypeString:
		if flen != types.UnspecifiedLength && flen > mysql.MaxFieldCharLength {
			return types.ErrTooBigFieldLength.FastGenByArgs(name, mysql.MaxFieldCharLength)
		}
	case mysql.TypeFloat, mysql.TypeDouble:
		return checkFloat(name, ft)
	case mysql.TypeNewDecimal:
		return checkDecimal(name, ft)
	case mysql.TypeBit:
		if flen <= 0 {
			return types.ErrInvalidFieldSize.FastGenByArgs(name)
		}
		if flen > mysql.MaxBitDisplayWidth {
			return types.ErrTooBigDisplayWidth.FastGenByArgs(name, mysql.MaxBitDisplayWidth)
		}
	case mysql.TypeDatetime, mysql.TypeDuration, mysql.TypeTimestamp:
		if decimal != types.UnspecifiedFsp && (decimal < types.MinFsp || decimal > types.MaxFsp) {
			return types.ErrTooBigPrecision.FastGenByArgs(decimal, name, types.MaxFsp)
		}
	case mysql.TypeSet:
		if len(ft.GetElems()) > mysql.MaxTypeSetMembers {
			return types.ErrTooBigSet.FastGenByArgs(name)
		}
		for _, elem := range ft.GetElems() {
			if strings.Contains(elem, ",") {
				return types.ErrIllegalValueForType.FastGenByArgs(types.TypeStr(ft.GetType()), elem)
			}
		}
	case mysql.TypeTiDBVectorFloat32, mysql.TypeGeometry:
		return Unsupported("column type " + types.TypeStr(ft.GetType()))
	}
	return nil
}

func checkFloat(name string, ft *types.FieldType) error {
	flen, decimal := ft.GetFlen(), ft.GetDecimal()
	if decimal == types.UnspecifiedLength {
		if ft.GetType() == mysql.TypeFloat && flen > mysql.MaxDoublePrecisionLength {
			return types.ErrWrongFieldSpec.FastGenByArgs(name)
		}
		return nil
	}
	switch {
	case decimal > mysql.MaxFloatingTypeScale:
		return types.ErrTooBigScale.FastGenByArgs(decimal, name, mysql.MaxFloatingTypeScale)
	case flen > mysql.MaxFloatingTypeWidth || flen == 0:
		return types.ErrTooBigDisplayWidth.FastGenByArgs(name, mysql.MaxFloatingTypeWidth)
	case flen < decimal:
		return types.ErrMBiggerThanD.FastGenByArgs(name)
	}
	return nil
}

func checkDecimal(name string, ft *types.FieldType) error {
	flen, decimal := ft.GetFlen(), ft.GetDecimal()
	switch {
	case decimal > mysql.MaxDecimalScale:
		return types.ErrTooBigScale.FastGenByArgs(decimal, name, mysql.MaxDecimalScale)
	case flen > mysql.MaxDecimalWidth:
		return types.ErrTooBigPrecision.FastGenByArgs(flen, name, mysql.MaxDecimalWidth)
	case flen != types.UnspecifiedLength && flen < decimal:
		return types.ErrMBiggerThanD.FastGenByArgs(name)
	case flen == 0 && (decimal == 0 || decimal == types.UnspecifiedLength):
		width, _ := mysql.GetDefaultFieldLengthAndDecimal(mysql.TypeNewDecimal)
		ft.SetFlen(width)
		ft.SetDecimal(0)
	}
	return nil
}

func (b *columnBuilder) option(opt *ast.ColumnOption) error {
	col := b.col
	switch opt.Tp {
	case ast.ColumnOptionNotNull:
		col.AddFlag(mysql.NotNullFlag)
	case ast.ColumnOptionNull:
		col.DelFlag(mysql.NotNullFlag)
		b.null = true
	case ast.ColumnOptionAutoIncrement:
		return b.autoIncrement()
	case ast.ColumnOptionPrimaryKey:
		if !mysql.HasPriKeyFlag(col.GetFlag()) {
			b.addKey(ast.ConstraintPrimaryKey, opt)
			col.AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
		}
	case ast.ColumnOptionUniqKey:
		if !mysql.HasUniKeyFlag(col.GetFlag()) {
			b.addKey(ast.ConstraintUniqKey, opt)
			col.AddFlag(mysql.UniqueKeyFlag)
		}
	case ast.ColumnOptionDefaultValue:
		return b.setDefault(opt.Expr)
	case ast.ColumnOptionOnUpdate:
		if !b.isNow(opt.Expr) {
			return dbterror.ErrInvalidOnUpdate.FastGenByArgs(col.Name)
		}
		col.AddFlag(mysql.OnUpdateNowFlag)
		b.onUpdateNow = true
	case ast.ColumnOptionComment:
		text, err := literal(opt.Expr)
		if err != nil {
			return err
		}
		if col.Comment, err = text.ToString(); err != nil {
			return err
		}
		return b.env.checkComment(&col.Comment, col.Name.O, maxCommentLength, dbterror.ErrTooLongFieldComment)
	case ast.ColumnOptionGenerated:
		return b.generated(opt)
	case ast.ColumnOptionAutoRandom:
		return Unsupported("AUTO_RANDOM")
	case ast.ColumnOptionFulltext:
		return dbterror.ErrTableCantHandleFt.FastGenByArgs()
	case ast.ColumnOptionCheck:
		b.env.Warn(errCheckIgnored)
	}
	// COLLATE was resolved with the charset; REFERENCES of a column, STORAGE and
	// COLUMN_FORMAT have no effect, as in MySQL.
	return nil
}

func (b *columnBuilder) autoIncrement() error {
	switch b.col.GetType() {
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong,
		mysql.TypeFloat, mysql.TypeDouble:
	default:
		return ErrWrongColumnSpec.FastGenByArgs(b.col.Name.O)
	}
	b.col.AddFlag(mysql.AutoIncrementFlag | mysql.NotNullFlag)
	return nil
}

func (b *columnBuilder) addKey(tp ast.ConstraintType, opt *ast.ColumnOption) {
	b.constraints = append(b.constraints, &ast.Constraint{
		Tp:     tp,
		Keys:   []*ast.IndexPartSpecification{{Column: b.def.Name, Length: types.UnspecifiedLength}},
		Option: &ast.IndexOption{PrimaryKeyTp: opt.PrimaryKeyTp, Global: opt.StrValue == "Global"},
	})
}

// finish derives flags from the options and checks them against each other.
func (b *columnBuilder) finish() error {
	col := b.col
	if !b.hasDefault && col.GetType() == mysql.TypeYear && mysql.HasNotNullFlag(col.GetFlag()) {
		if err := col.SetDefaultValue("0000"); err != nil {
			return err
		}
	}
	setNoDefaultFlag(col, b.hasDefault)
	setTypeFlags(col)
	if b.inPrimaryKey {
		col.AddFlag(mysql.PriKeyFlag)
	}
	isPrimary := mysql.HasPriKeyFlag(col.GetFlag())
	switch {
	case isPrimary && b.hasDefault && col.GetDefaultValue() == nil:
		return types.ErrInvalidDefault.FastGenByArgs(col.Name)
	case isPrimary && b.null:
		return dbterror.ErrPrimaryCantHaveNull
	}
	if err := checkElements(col); err != nil {
		return err
	}
	if err := b.checkGenerated(); err != nil {
		return err
	}
	return b.checkDefault()
}

// SetNotNull makes a column NOT NULL. No row may have a NULL in it.
func SetNotNull(col *model.ColumnInfo) {
	col.AddFlag(mysql.NotNullFlag)
	setNoDefaultFlag(col, col.GetDefaultValue() != nil)
}

// setNoDefaultFlag marks columns that an INSERT must give a value.
func setNoDefaultFlag(col *model.ColumnInfo, hasDefault bool) {
	if !hasDefault && mysql.HasNotNullFlag(col.GetFlag()) && !mysql.HasAutoIncrementFlag(col.GetFlag()) {
		col.AddFlag(mysql.NoDefaultValueFlag)
	}
}

func setTypeFlags(col *model.ColumnInfo) {
	if col.FieldType.EvalType().IsStringKind() {
		if col.GetCharset() == charset.CharsetBin {
			col.AddFlag(mysql.BinaryFlag)
		} else {
			col.DelFlag(mysql.BinaryFlag)
		}
	}
	switch col.GetType() {
	case mysql.TypeBit:
		col.DelFlag(mysql.BinaryFlag)
		col.AddFlag(mysql.UnsignedFlag)
	case mysql.TypeYear:
		col.DelFlag(mysql.BinaryFlag)
		col.AddFlag(mysql.ZerofillFlag)
	}
	if mysql.HasZerofillFlag(col.GetFlag()) {
		col.AddFlag(mysql.UnsignedFlag)
	}
}

// checkElements refuses an ENUM or SET that lists a value twice, under the
// column's collation.
func checkElements(col *model.ColumnInfo) error {
	if col.GetType() != mysql.TypeEnum && col.GetType() != mysql.TypeSet {
		return nil
	}
	cs, err := charset.GetCharsetInfo(col.GetCharset())
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(col.GetElems()))
	collator := collate.GetCollator(col.GetCollate())
	for _, elem := range col.GetElems() {
		if len(elem) > 255 || len(elem)*cs.Maxlen > 1020 {
			return dbterror.ErrTooLongValueForType.FastGenByArgs(col.Name)
		}
		key := string(collator.Key(elem))
		if seen[key] {
			return types.ErrDuplicatedValueInType.FastGenByArgs(col.Name, elem, strings.ToUpper(types.TypeStr(col.GetType())))
		}
		seen[key] = true
	}
	return nil
}

var errCheckIgnored = terror.ClassDDL.NewStdErr(terror.ErrCode(1105),
	mysql.Message("CHECK constraints are not supported; the constraint is ignored", nil))
