package schema

import (
	"slices"
	"strings"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// The changes of indexes that exist do what TiDB's own do (pkg/ddl/index.go).

// dropIndex is DROP INDEX, or DROP PRIMARY KEY of a table that is not clustered by
// it.
type dropIndex struct {
	model.ModifyIndexArgs
}

func (d *dropIndex) begin(s Subject, c *job.Change) error {
	arg := d.IndexArgs[0]
	idx := s.FindIndexByName(arg.IndexName.L)
	if idx == nil {
		if arg.IfExist {
			return nil
		}
		return dbterror.ErrCantDropFieldOrKey.GenWithStack("index %s doesn't exist", arg.IndexName)
	}
	c.IndexIDs, c.Global = []int64{idx.ID}, idx.Global
	return nil
}

// checkNotNeeded fails if a foreign key needs the index, because no other index
// serves it that stays, or is added in its stead: those are public in the version in which
// the others leave. It is checkIndexNeededInForeignKey in pkg/ddl/foreign_key.go, which does
// not mind what else the statement drops.
func checkNotNeeded(s Subject, idx *model.IndexInfo, dropped, added []int64) error {
	if !variable.EnableForeignKey.Load() {
		return nil
	}
	needs := func(cols []pmodel.CIStr) bool {
		if !model.IsIndexPrefixCovered(s.TableInfo, idx, cols...) {
			return false
		}
		if s.PKIsHandle && len(cols) == 1 {
			if col := model.FindColumnInfo(s.Columns, cols[0].L); col != nil && mysql.HasPriKeyFlag(col.GetFlag()) {
				return false
			}
		}
		return !slices.ContainsFunc(s.Indices, func(other *model.IndexInfo) bool {
			stays := other.State == model.StatePublic && !slices.Contains(dropped, other.ID) || slices.Contains(added, other.ID)
			return stays && model.IsIndexPrefixCovered(s.TableInfo, other, cols...)
		})
	}
	for _, fk := range s.ForeignKeys {
		if fk.Version >= model.FKVersion1 && needs(fk.Cols) {
			return dbterror.ErrDropIndexNeededInForeignKey.GenWithStackByArgs(idx.Name)
		}
	}
	for _, fk := range s.Referred {
		if needs(fk.Cols) {
			return dbterror.ErrDropIndexNeededInForeignKey.GenWithStackByArgs(idx.Name)
		}
	}
	return nil
}

func (*dropIndex) follow(*model.TableInfo, *job.Change, model.SchemaState) {}

// publish also puts the index behind those that stay: TiDB has foreign keys go by the first index that serves them, in
// any state (FindIndexByColumns in pkg/meta/model/index.go).
func (*dropIndex) publish(table *model.TableInfo, c *job.Change) error {
	setIndexStates(table, c.IndexIDs, model.StateWriteOnly)
	goes := func(idx *model.IndexInfo) bool { return slices.Contains(c.IndexIDs, idx.ID) }
	table.Indices = slices.Concat(
		slices.DeleteFunc(slices.Clone(table.Indices), goes),
		slices.DeleteFunc(slices.Clone(table.Indices), func(idx *model.IndexInfo) bool { return !goes(idx) }),
	)
	return nil
}

func (*dropIndex) drop(table *model.TableInfo, c *job.Change, state model.SchemaState) {
	setIndexStates(table, c.IndexIDs, state)
	if state != model.StateNone {
		return
	}
	for _, id := range c.IndexIDs {
		if idx := model.FindIndexInfoByID(table.Indices, id); idx != nil {
			tidbddl.DropIndexColumnFlag(table, idx)
			tidbddl.RemoveDependentHiddenColumns(table, idx)
			removeIndex(table, id)
		}
	}
}

func setIndexStates(table *model.TableInfo, ids []int64, state model.SchemaState) {
	for _, idx := range table.Indices {
		if slices.Contains(ids, idx.ID) {
			idx.State = state
		}
	}
}

// removeIndex takes an index out of the table.
func removeIndex(table *model.TableInfo, id int64) {
	table.Indices = slices.DeleteFunc(table.Indices, func(idx *model.IndexInfo) bool { return idx.ID == id })
}

// renameIndex is RENAME INDEX.
type renameIndex struct {
	plainChange
	model.ModifyIndexArgs
}

func (r *renameIndex) begin(s Subject, c *job.Change) error {
	from, to := r.IndexArgs[0].IndexName, r.IndexArgs[1].IndexName
	if same, err := tidbddl.ValidateRenameIndex(from, to, s.TableInfo); same || err != nil {
		return err
	}
	c.IndexIDs = []int64{s.FindIndexByName(from.L).ID}
	return nil
}

func (r *renameIndex) publish(table *model.TableInfo, c *job.Change) error {
	to := r.IndexArgs[1].IndexName
	for _, id := range c.IndexIDs {
		idx := model.FindIndexInfoByID(table.Indices, id)
		if idx == nil {
			continue
		}
		if taken := table.FindIndexByName(to.L); taken != nil && taken.ID != id {
			return infoschema.ErrKeyNameDuplicate.GenWithStackByArgs(taken.Name.O)
		}
		was := idx.Name
		idx.Name = to
		for _, ic := range idx.Columns {
			col := table.Columns[ic.Offset]
			if col.Hidden && originOfHidden(col.Name) == was.O {
				col.Name = renamedHidden(col.Name, was, to)
				ic.Name = col.Name
			}
		}
	}
	return nil
}

// hiddenPrefix begins the names of the hidden columns of an expression index:
// _V$_<index>_<number>.
const hiddenPrefix = "_V$_"

// originOfHidden is the index that a hidden column is named after.
func originOfHidden(name pmodel.CIStr) string {
	rest := strings.TrimPrefix(name.O, hiddenPrefix)
	if at := strings.LastIndexByte(rest, '_'); at >= 0 {
		return rest[:at]
	}
	return rest
}

func renamedHidden(name, from, to pmodel.CIStr) pmodel.CIStr {
	return pmodel.NewCIStr(strings.Replace(name.O, from.O, to.O, 1))
}

// alterVisibility is ALTER INDEX VISIBLE or INVISIBLE.
type alterVisibility struct {
	plainChange
	model.AlterIndexVisibilityArgs
}

func (a *alterVisibility) begin(s Subject, c *job.Change) error {
	idx := s.FindIndexByName(a.IndexName.L)
	if idx == nil || idx.State != model.StatePublic {
		return infoschema.ErrKeyNotExists.GenWithStackByArgs(a.IndexName.O, s.Name)
	}
	c.IndexIDs = []int64{idx.ID}
	return nil
}

func (a *alterVisibility) publish(table *model.TableInfo, c *job.Change) error {
	for _, id := range c.IndexIDs {
		if idx := model.FindIndexInfoByID(table.Indices, id); idx != nil {
			idx.Invisible = a.Invisible
		}
	}
	return nil
}
