package sql

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
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

// takenAway returns the names of the indexes that an ALTER TABLE drops or renames.
func takenAway(specs []*ast.AlterTableSpec) []pmodel.CIStr {
	var names []pmodel.CIStr
	for _, spec := range specs {
		switch spec.Tp {
		case ast.AlterTableDropIndex:
			names = append(names, pmodel.NewCIStr(spec.Name))
		case ast.AlterTableDropPrimaryKey:
			names = append(names, pmodel.NewCIStr(mysql.PrimaryKeyName))
		case ast.AlterTableRenameIndex:
			names = append(names, spec.FromKey)
		}
	}
	return names
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
			ast.AlterTableDropIndex, ast.AlterTableDropPrimaryKey, ast.AlterTableRenameIndex, ast.AlterTableIndexInvisible,
			// These change nothing in TiDB.
			ast.AlterTableDisableKeys, ast.AlterTableEnableKeys, ast.AlterTableWithValidation, ast.AlterTableWithoutValidation,
			ast.AlterTableOrderByColumns:
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

// kindOf names what we leave to TiDB.
func kindOf(tp ast.AlterTableType) string {
	if name, ok := kinds[tp]; ok {
		return name
	}
	return fmt.Sprintf("kind %d of ALTER TABLE", tp) // of a later TiDB
}

var kinds = map[ast.AlterTableType]string{
	ast.AlterTableDropForeignKey:             "DROP FOREIGN KEY",
	ast.AlterTableRenameTable:                "RENAME",
	ast.AlterTableWriteable:                  "READ ONLY, READ WRITE",
	ast.AlterTableForce:                      "FORCE",
	ast.AlterTableAddPartitions:              "ADD PARTITION",
	ast.AlterTableAddLastPartition:           "LAST PARTITION",
	ast.AlterTablePartitionAttributes:        "PARTITION ATTRIBUTES",
	ast.AlterTablePartitionOptions:           "PARTITION options",
	ast.AlterTableCoalescePartitions:         "COALESCE PARTITION",
	ast.AlterTableDropPartition:              "DROP PARTITION",
	ast.AlterTableDropFirstPartition:         "FIRST PARTITION",
	ast.AlterTableTruncatePartition:          "TRUNCATE PARTITION",
	ast.AlterTablePartition:                  "PARTITION BY",
	ast.AlterTableRemovePartitioning:         "REMOVE PARTITIONING",
	ast.AlterTableRebuildPartition:           "REBUILD PARTITION",
	ast.AlterTableReorganizePartition:        "REORGANIZE PARTITION",
	ast.AlterTableReorganizeFirstPartition:   "MERGE FIRST PARTITION",
	ast.AlterTableReorganizeLastPartition:    "SPLIT LAST PARTITION",
	ast.AlterTableCheckPartitions:            "CHECK PARTITION",
	ast.AlterTableExchangePartition:          "EXCHANGE PARTITION",
	ast.AlterTableOptimizePartition:          "OPTIMIZE PARTITION",
	ast.AlterTableRepairPartition:            "REPAIR PARTITION",
	ast.AlterTableImportPartitionTablespace:  "IMPORT PARTITION TABLESPACE",
	ast.AlterTableDiscardPartitionTablespace: "DISCARD PARTITION TABLESPACE",
	ast.AlterTableImportTablespace:           "IMPORT TABLESPACE",
	ast.AlterTableDiscardTablespace:          "DISCARD TABLESPACE",
	ast.AlterTableSecondaryLoad:              "SECONDARY_LOAD",
	ast.AlterTableSecondaryUnload:            "SECONDARY_UNLOAD",
	ast.AlterTableAlterCheck:                 "ALTER CHECK",
	ast.AlterTableDropCheck:                  "DROP CHECK",
	ast.AlterTableSetTiFlashReplica:          "SET TIFLASH REPLICA",
	ast.AlterTableAddStatistics:              "ADD STATS_EXTENDED",
	ast.AlterTableDropStatistics:             "DROP STATS_EXTENDED",
	ast.AlterTableStatsOptions:               "STATS_OPTIONS",
	ast.AlterTableAttributes:                 "ATTRIBUTES",
	ast.AlterTableCache:                      "CACHE",
	ast.AlterTableNoCache:                    "NOCACHE",
	ast.AlterTableRemoveTTL:                  "REMOVE TTL",
}
