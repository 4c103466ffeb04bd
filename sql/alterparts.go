package sql

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
)

// part is one part of a statement: an index that it adds, or something else that an
// ALTER TABLE does.
type part struct {
	index *indexSpec
	alter *ast.AlterTableSpec
}

// indexSpec is one index that a statement adds.
type indexSpec struct {
	keyType     ast.IndexKeyType
	primary     bool
	name        string
	parts       []*ast.IndexPartSpecification
	option      *ast.IndexOption
	ifNotExists bool
}

// ours says that the index is of a kind that we build at all.
func (s *indexSpec) ours() bool {
	if s.keyType != ast.IndexKeyTypeNone && s.keyType != ast.IndexKeyTypeUnique {
		return false
	}
	return s.option == nil || s.option.Tp != pmodel.IndexTypeHypo && s.option.Tp != pmodel.IndexTypeHNSW
}

// addsIndexes says that an ALTER TABLE adds an index of a kind that we build.
func addsIndexes(specs []*ast.AlterTableSpec) bool {
	return slices.ContainsFunc(specs, func(spec *ast.AlterTableSpec) bool {
		if spec.Tp == ast.AlterTableAddConstraint {
			return addedIndex(spec.Constraint) != nil
		}
		return slices.ContainsFunc(spec.NewConstraints, func(c *ast.Constraint) bool { return addedIndex(c) != nil })
	})
}

// addedIndex returns the index that a constraint is, nil if it is none that we build.
func addedIndex(c *ast.Constraint) *indexSpec {
	index := &indexSpec{name: c.Name, parts: c.Keys, option: c.Option}
	switch c.Tp {
	case ast.ConstraintKey, ast.ConstraintIndex:
		index.ifNotExists = c.IfNotExists
	case ast.ConstraintUniq, ast.ConstraintUniqIndex, ast.ConstraintUniqKey:
		index.keyType = ast.IndexKeyTypeUnique
	case ast.ConstraintPrimaryKey:
		index.keyType, index.primary = ast.IndexKeyTypeUnique, true
	default:
		return nil
	}
	if !index.ours() {
		return nil
	}
	return index
}

// partsOf returns the parts of an ALTER TABLE that adds indexes, or says what we
// cannot do together with them.
func partsOf(specs []*ast.AlterTableSpec) ([]part, error) {
	var parts []part
	for _, spec := range specs {
		switch spec.Tp {
		case ast.AlterTableAddConstraint:
			index := addedIndex(spec.Constraint)
			if index == nil {
				return nil, leftToTiDB("the statement adds something else than plain indexes, too")
			}
			parts = append(parts, part{index: index})
			continue
		case ast.AlterTableAddColumns, ast.AlterTableDropColumn,
			ast.AlterTableModifyColumn, ast.AlterTableChangeColumn, ast.AlterTableRenameColumn, ast.AlterTableAlterColumn,
			ast.AlterTableDropIndex, ast.AlterTableDropPrimaryKey, ast.AlterTableRenameIndex, ast.AlterTableIndexInvisible:
		case ast.AlterTableOption:
			for _, option := range spec.Options {
				switch option.Tp {
				case ast.TableOptionComment, ast.TableOptionEngine, ast.TableOptionRowFormat:
				default:
					return nil, leftToTiDB("the statement sets other options of the table than its comment")
				}
			}
		default:
			return nil, leftToTiDB(fmt.Sprintf("the statement does more than can be done together with it (%s)", kindOf(spec.Tp)))
		}
		parts = append(parts, part{alter: spec})
	}
	return parts, nil
}

// kindOf names what we leave to TiDB most.
func kindOf(tp ast.AlterTableType) string {
	switch tp {
	case ast.AlterTableAddPartitions, ast.AlterTableDropPartition, ast.AlterTableTruncatePartition, ast.AlterTableReorganizePartition,
		ast.AlterTablePartition, ast.AlterTableRemovePartitioning, ast.AlterTableExchangePartition:
		return "partitions"
	case ast.AlterTableDropForeignKey:
		return "DROP FOREIGN KEY"
	case ast.AlterTableRenameTable:
		return "RENAME"
	}
	return fmt.Sprintf("kind %d of ALTER TABLE", tp)
}
