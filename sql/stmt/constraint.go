package stmt

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"fastddl/sql/sqlerr"
)

const erCheckConstraintNotFound = 3821

// dropConstraints takes the constraints that are accepted and not enforced out
// of a statement and returns a warning for each. nothingLeft says that an ALTER
// TABLE consisted of nothing else.
func dropConstraints(stmt ast.StmtNode) (warnings []Warning, nothingLeft bool, err error) {
	d := &constraintDropper{}
	switch stmt := stmt.(type) {
	case *ast.CreateTableStmt:
		stmt.Constraints = slices.DeleteFunc(stmt.Constraints, d.drop)
		d.columns(stmt.Cols)
	case *ast.AlterTableStmt:
		specs := len(stmt.Specs)
		if err := d.specs(stmt); err != nil {
			return nil, false, err
		}
		nothingLeft = specs > 0 && len(stmt.Specs) == 0
	}
	return d.warnings, nothingLeft, nil
}

type constraintDropper struct{ warnings []Warning }

// drop reports whether a constraint is one to drop, and warns of it.
func (d *constraintDropper) drop(c *ast.Constraint) bool {
	switch c.Tp {
	case ast.ConstraintForeignKey:
		d.warn("FOREIGN KEY", c.Name)
	case ast.ConstraintCheck:
		d.warn("CHECK", c.Name)
	default:
		return false
	}
	return true
}

func (d *constraintDropper) warn(kind, name string) {
	if name != "" {
		name = " '" + name + "'"
	}
	d.warnings = append(d.warnings, Warning{
		Level:   LevelWarning,
		Code:    errno.ErrNotSupportedYet,
		Message: fmt.Sprintf("%s constraint%s is accepted but not enforced", kind, name),
	})
}

// columns drops the constraints that are written with a column. MySQL ignores
// REFERENCES there, without a word.
func (d *constraintDropper) columns(cols []*ast.ColumnDef) {
	for _, col := range cols {
		col.Options = slices.DeleteFunc(col.Options, func(o *ast.ColumnOption) bool {
			if o.Tp == ast.ColumnOptionCheck {
				d.warn("CHECK", o.ConstraintName)
			}
			return o.Tp == ast.ColumnOptionCheck || o.Tp == ast.ColumnOptionReference
		})
	}
}

func (d *constraintDropper) specs(stmt *ast.AlterTableStmt) error {
	for _, spec := range stmt.Specs {
		switch spec.Tp {
		case ast.AlterTableDropForeignKey:
			return sqlerr.New(errno.ErrCantDropFieldOrKey, spec.Name)
		case ast.AlterTableDropCheck, ast.AlterTableAlterCheck:
			return sqlerr.Newf(erCheckConstraintNotFound, "Check constraint '%s' is not found in the table.", spec.Constraint.Name)
		}
		d.columns(spec.NewColumns)
		spec.NewConstraints = slices.DeleteFunc(spec.NewConstraints, d.drop)
	}
	stmt.Specs = slices.DeleteFunc(stmt.Specs, func(spec *ast.AlterTableSpec) bool {
		return spec.Tp == ast.AlterTableAddConstraint && d.drop(spec.Constraint)
	})
	return nil
}
