package builder

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// CheckTableName refuses a name that no table can have.
func CheckTableName(name string) error {
	if utf8.RuneCountInString(name) > mysql.MaxTableNameLength {
		return dbterror.ErrTooLongIdent.FastGenByArgs(name)
	}
	if badIdentifier(name) {
		return dbterror.ErrWrongTableName.FastGenByArgs(name)
	}
	return nil
}

// CheckDatabaseName refuses a name that no database can have.
func CheckDatabaseName(name string) error {
	if utf8.RuneCountInString(name) > mysql.MaxDatabaseNameLength {
		return dbterror.ErrTooLongIdent.FastGenByArgs(name)
	}
	if badIdentifier(name) {
		return dbterror.ErrWrongDBName.FastGenByArgs(name)
	}
	return nil
}

// NewTable returns the definition of a CREATE TABLE statement, public and
// without an ID.
func NewTable(env *Env, stmt *ast.CreateTableStmt, db *model.DBInfo) (*model.TableInfo, error) {
	if err := checkSupported(stmt); err != nil {
		return nil, err
	}
	if err := CheckTableName(stmt.Table.Name.O); err != nil {
		return nil, err
	}
	said, err := tableCharset(stmt.Options)
	if err != nil {
		return nil, err
	}
	cs, err := resolve(said, charsetPair{db.Charset, db.Collate})
	if err != nil {
		return nil, err
	}
	b := &tableBuilder{env: env, tbl: &model.TableInfo{
		Name: stmt.Table.Name, Charset: cs.charset, Collate: cs.collation,
		State: model.StatePublic, Version: model.CurrLatestTableInfoVersion,
	}}
	if err := b.columns(stmt, cs); err != nil {
		return nil, err
	}
	if err := b.keys(); err != nil {
		return nil, err
	}
	if err := b.checkAutoIncrement(); err != nil {
		return nil, err
	}
	b.countAutoIncrementApart()
	if err := CheckGenerated(env, b.tbl, 0); err != nil {
		return nil, err
	}
	return b.tbl, b.options(stmt.Options)
}

func checkSupported(stmt *ast.CreateTableStmt) error {
	switch {
	case stmt.Select != nil:
		return Unsupported("CREATE TABLE ... SELECT")
	case stmt.TemporaryKeyword != ast.TemporaryNone:
		return Unsupported("temporary tables")
	case stmt.Partition != nil:
		return Unsupported("partitioned tables")
	case len(stmt.Cols) == 0:
		return dbterror.ErrTableMustHaveColumns
	}
	return nil
}

type tableBuilder struct {
	env         *Env
	tbl         *model.TableInfo
	constraints []*ast.Constraint
}

func (b *tableBuilder) columns(stmt *ast.CreateTableStmt, cs charsetPair) error {
	primary := make(map[string]bool)
	for _, c := range stmt.Constraints {
		if c.Tp != ast.ConstraintPrimaryKey {
			continue
		}
		for _, key := range c.Keys {
			if key.Expr == nil {
				primary[key.Column.Name.L] = true
			}
		}
	}
	b.constraints = append(b.constraints, stmt.Constraints...)
	for i, def := range stmt.Cols {
		cb := &columnBuilder{env: b.env, def: def, inPrimaryKey: primary[def.Name.Name.L]}
		col, keys, err := cb.build(cs)
		if err != nil {
			return err
		}
		if model.FindColumnInfo(b.tbl.Columns, col.Name.L) != nil {
			return ErrColumnExists.FastGenByArgs(col.Name.O)
		}
		col.Offset = i
		b.tbl.MaxColumnID++
		col.ID = b.tbl.MaxColumnID
		b.tbl.Columns = append(b.tbl.Columns, col)
		b.constraints = append(b.constraints, keys...)
	}
	return CheckColumnCount(b.tbl)
}

// keys builds the indexes in the order of their declaration, those of column
// options last.
func (b *tableBuilder) keys() error {
	if err := b.checkPrimaryKeys(); err != nil {
		return err
	}
	if err := b.nameKeys(); err != nil {
		return err
	}
	for _, c := range b.constraints {
		if err := b.key(c); err != nil {
			return err
		}
	}
	return CheckIndexCount(b.tbl)
}

func (b *tableBuilder) checkPrimaryKeys() error {
	count := 0
	for _, c := range b.constraints {
		if c.Tp == ast.ConstraintPrimaryKey {
			count++
		}
	}
	if count > 1 {
		return ErrMultiplePriKey.FastGenByArgs()
	}
	return nil
}

// nameKeys refuses names that are used twice and names the keys that have none,
// after all given names are known.
func (b *tableBuilder) nameKeys() error {
	taken := make(map[string]bool)
	for _, c := range b.constraints {
		if !isKey(c.Tp) || c.Name == "" {
			continue
		}
		if taken[strings.ToLower(c.Name)] {
			return dbterror.ErrDupKeyName.FastGenByArgs(c.Name)
		}
		taken[strings.ToLower(c.Name)] = true
	}
	for _, c := range b.constraints {
		if !isKey(c.Tp) || c.Name != "" {
			continue
		}
		column := anonymousExpressionIndex
		if c.Keys[0].Expr == nil {
			column = c.Keys[0].Column.Name.O
		}
		name := column
		for n := 2; strings.EqualFold(name, mysql.PrimaryKeyName) || taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s_%d", column, n)
		}
		taken[strings.ToLower(name)] = true
		c.Name = name
	}
	return nil
}

func isKey(tp ast.ConstraintType) bool { return isUnique(tp) || isPlainKey(tp) }

func isPlainKey(tp ast.ConstraintType) bool {
	return tp == ast.ConstraintKey || tp == ast.ConstraintIndex
}

func isUnique(tp ast.ConstraintType) bool {
	return tp == ast.ConstraintUniq || tp == ast.ConstraintUniqKey || tp == ast.ConstraintUniqIndex
}

func (b *tableBuilder) key(c *ast.Constraint) error {
	switch {
	case c.Tp == ast.ConstraintPrimaryKey:
		return b.primaryKey(c)
	case isKey(c.Tp):
		if c.Option != nil && c.Option.PrimaryKeyTp != pmodel.PrimaryKeyTypeDefault {
			return dbterror.ErrUnsupportedClusteredSecondaryKey
		}
		spec, err := NewIndexSpec(b.env, c.Name, c.Keys, c.Option)
		if err != nil {
			return err
		}
		spec.Unique = isUnique(c.Tp)
		return b.index(spec)
	}
	return CheckConstraint(b.env, c)
}

// CheckConstraint answers constraints that are no keys: it warns of those that
// have no effect and refuses the others.
func CheckConstraint(env *Env, c *ast.Constraint) error {
	switch c.Tp {
	case ast.ConstraintCheck:
		env.Warn(errCheckIgnored)
		return nil
	case ast.ConstraintForeignKey:
		return Unsupported("foreign keys")
	case ast.ConstraintFulltext:
		return dbterror.ErrTableCantHandleFt.FastGenByArgs()
	}
	return Unsupported("this kind of constraint")
}

func (b *tableBuilder) primaryKey(c *ast.Constraint) error {
	spec, err := NewPrimaryKeySpec(b.env, c.Keys, c.Option)
	if err != nil {
		return err
	}
	for _, part := range spec.Columns {
		col := model.FindColumnInfo(b.tbl.Columns, strings.ToLower(part.Name))
		if col == nil {
			return dbterror.ErrKeyColumnDoesNotExits.FastGenByArgs(part.Name)
		}
		col.AddFlag(mysql.PriKeyFlag)
		SetNotNull(col)
	}
	if !b.clustered(c.Option) {
		return b.index(spec)
	}
	if b.isIntHandle(spec) {
		b.tbl.PKIsHandle = true
		return nil
	}
	b.tbl.IsCommonHandle, b.tbl.CommonHandleVersion = true, 1
	return b.index(spec)
}

func (b *tableBuilder) clustered(opt *ast.IndexOption) bool {
	if opt == nil || opt.PrimaryKeyTp == pmodel.PrimaryKeyTypeDefault {
		return b.env.ClusteredIndex
	}
	return opt.PrimaryKeyTp == pmodel.PrimaryKeyTypeClustered
}

func (b *tableBuilder) isIntHandle(spec *IndexSpec) bool {
	if len(spec.Columns) != 1 {
		return false
	}
	col := model.FindColumnInfo(b.tbl.Columns, strings.ToLower(spec.Columns[0].Name))
	return mysql.IsIntegerType(col.GetType())
}

func (b *tableBuilder) index(spec *IndexSpec) error {
	if err := spec.Resolve(b.env, b.tbl); err != nil {
		return err
	}
	idx, hidden, err := NewIndex(b.tbl, spec, model.StatePublic)
	if err != nil {
		return err
	}
	AppendColumns(b.tbl, hidden)
	b.tbl.MaxIndexID++
	idx.ID = b.tbl.MaxIndexID
	b.tbl.Indices = append(b.tbl.Indices, idx)
	AddKeyFlags(b.tbl, idx)
	return nil
}

// AppendColumns appends columns to a table's and gives them IDs.
func AppendColumns(tbl *model.TableInfo, columns []*model.ColumnInfo) {
	for _, col := range columns {
		tbl.MaxColumnID++
		col.ID = tbl.MaxColumnID
		tbl.Columns = append(tbl.Columns, col)
	}
}

// checkAutoIncrement: there is one AUTO_INCREMENT column at most, and it leads
// a key.
func (b *tableBuilder) checkAutoIncrement() error {
	var auto *model.ColumnInfo
	for _, col := range b.tbl.Columns {
		if !mysql.HasAutoIncrementFlag(col.GetFlag()) {
			continue
		}
		if auto != nil {
			return ErrWrongAutoKey.FastGenByArgs()
		}
		auto = col
	}
	if auto == nil || b.tbl.PKIsHandle && mysql.HasPriKeyFlag(auto.GetFlag()) {
		return nil
	}
	for _, idx := range b.tbl.Indices {
		if idx.Columns[0].Offset == auto.Offset {
			return nil
		}
	}
	return ErrWrongAutoKey.FastGenByArgs()
}

// countAutoIncrementApart gives AUTO_INCREMENT values a counter of their own
// where rows have hidden IDs too, which would leave gaps between them. In TiDB
// that is what AUTO_ID_CACHE=1 says.
func (b *tableBuilder) countAutoIncrementApart() {
	if b.tbl.GetAutoIncrementColInfo() != nil && !b.tbl.PKIsHandle && !b.tbl.IsCommonHandle {
		b.tbl.AutoIDCache = 1
	}
}

func (b *tableBuilder) options(options []*ast.TableOption) error {
	for _, opt := range options {
		switch opt.Tp {
		case ast.TableOptionAutoIncrement:
			if opt.UintValue > math.MaxInt64 {
				return Unsupported("AUTO_INCREMENT above 9223372036854775807")
			}
			b.tbl.AutoIncID = int64(opt.UintValue)
		case ast.TableOptionComment:
			b.tbl.Comment = opt.StrValue
		case ast.TableOptionUnion:
			return dbterror.ErrTableOptionUnionUnsupported
		case ast.TableOptionInsertMethod:
			return dbterror.ErrTableOptionInsertMethodUnsupported
		case ast.TableOptionShardRowID, ast.TableOptionPreSplitRegion, ast.TableOptionPlacementPolicy,
			ast.TableOptionTTL, ast.TableOptionTTLEnable, ast.TableOptionTTLJobInterval, ast.TableOptionAutoRandomBase:
			return Unsupported("this table option")
		}
		// ENGINE, ROW_FORMAT and the like have no effect.
	}
	return CheckTableComment(b.env, b.tbl.Name.O, &b.tbl.Comment)
}

// CheckTableComment refuses a table comment that is too long, or cuts it when
// the SQL mode is not strict.
func CheckTableComment(env *Env, table string, comment *string) error {
	return env.checkComment(comment, table, 2*maxCommentLength, dbterror.ErrTooLongTableComment)
}

// NewTableLike returns a copy of a definition for CREATE TABLE ... LIKE:
// what is public in it, under a new name, without an ID.
func NewTableLike(name pmodel.CIStr, src *model.TableInfo) (*model.TableInfo, error) {
	if err := CheckTableName(name.O); err != nil {
		return nil, err
	}
	tbl := src.Clone()
	tbl.ID, tbl.Name = 0, name
	tbl.AutoIncID, tbl.AutoIDSchemaID = 0, 0
	tbl.UpdateTS, tbl.Revision = 0, 0
	tbl.Columns = tbl.Cols()
	tbl.Indices = nil
	for _, idx := range src.Indices {
		if idx.State == model.StatePublic {
			tbl.Indices = append(tbl.Indices, idx.Clone())
		}
	}
	return tbl, nil
}

// NewColumn returns the column of an ADD COLUMN, without an ID and offset. It
// has the value that existing rows show. inPrimaryKey says that the statement
// adds a primary key with the column in it.
func NewColumn(env *Env, def *ast.ColumnDef, tbl *model.TableInfo, db *model.DBInfo, inPrimaryKey bool) (*model.ColumnInfo, error) {
	for _, opt := range def.Options {
		if kind, ok := unsupportedInAddColumn[opt.Tp]; ok {
			return nil, dbterror.ErrUnsupportedAddColumn.FastGen("unsupported add column '%s' constraint %s when altering '%s.%s'",
				def.Name.Name.O, kind, db.Name.O, tbl.Name.O)
		}
	}
	b := &columnBuilder{env: env, def: def, inPrimaryKey: inPrimaryKey}
	col, _, err := b.build(charsetPair{tbl.Charset, tbl.Collate})
	if err != nil {
		return nil, err
	}
	if col.IsGenerated() {
		if col.GeneratedStored {
			return nil, dbterror.ErrUnsupportedOnGeneratedColumn.FastGenByArgs("Adding generated stored column through ALTER TABLE")
		}
		return col, nil
	}
	if inPrimaryKey {
		SetNotNull(col)
		// The key is not there yet.
		col.DelFlag(mysql.PriKeyFlag)
	}
	return col, setOriginDefault(col, env.Now, env.loc())
}

var unsupportedInAddColumn = map[ast.ColumnOptionType]string{
	ast.ColumnOptionAutoIncrement: "AUTO_INCREMENT",
	ast.ColumnOptionPrimaryKey:    "PRIMARY KEY",
	ast.ColumnOptionUniqKey:       "UNIQUE KEY",
}

// SetZeroOriginDefault gives a column that is being dropped a value for rows
// that are written without it, while some transactions still see the column.
func SetZeroOriginDefault(col *model.ColumnInfo) error {
	if col.GetOriginDefaultValue() != nil || !mysql.HasNotNullFlag(col.GetFlag()) {
		return nil
	}
	zero, err := zeroValue(col)
	if err != nil {
		return err
	}
	return col.SetOriginDefaultValue(zero)
}
