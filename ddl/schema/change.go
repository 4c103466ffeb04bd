package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/meta/autoid"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// What a statement does beside adding indexes goes through the schema states that
// TiDB takes it through (pkg/ddl/multi_schema_change.go):
//
//   - A column that is added has the states of the indexes, until it is public with
//     them.
//   - A definition that is changed changes when the indexes become public.
//   - An index or column that is dropped is public until then, write-only with the
//     publication, and loses its other states one by one.
//
// So one schema version changes everything that a statement can see, and until that
// version all of it can be undone. Whether it can be done at all is found out before
// the build, by doing it to a copy of the table (rehearse).

// change is how one type of changes is made.
type change interface {
	// begin checks the change against the table as the job has found it, notes in c
	// what it is about, and adds what is to be added as delete-only.
	begin(s Subject, c *job.Change) error
	// follow gives what is added another schema state; none removes it.
	follow(table *model.TableInfo, c *job.Change, state model.SchemaState)
	// publish makes the change visible.
	publish(table *model.TableInfo, c *job.Change) error
	// drop gives what is dropped its next schema state; none removes it.
	drop(table *model.TableInfo, c *job.Change, state model.SchemaState)
}

// Subject is a table, and the foreign keys of others that refer to it.
type Subject struct {
	*model.TableInfo
	Referred []*model.ReferredFKInfo
	// Analyzed says that TiDB has statistics of the indexes that become public.
	Analyzed bool
	// own are the indexes that the job itself has added.
	own []int64
}

// plainChange is a change that needs no states of its own.
type plainChange struct{}

func (plainChange) follow(*model.TableInfo, *job.Change, model.SchemaState) {}
func (plainChange) drop(*model.TableInfo, *job.Change, model.SchemaState)   {}

// SupportsChange says that a statement's change of a type can be made together with
// the publication of indexes.
func SupportsChange(tp model.ActionType) bool {
	return newChange(tp) != nil
}

// newChange returns the change of a type, nil if we cannot make it. Its only field
// is what the arguments are read into.
func newChange(tp model.ActionType) change {
	switch tp {
	case model.ActionAddColumn:
		return new(addColumn)
	case model.ActionDropColumn:
		return new(dropColumn)
	case model.ActionModifyColumn:
		return new(modifyColumn)
	case model.ActionSetDefaultValue:
		return new(setDefault)
	case model.ActionDropIndex, model.ActionDropPrimaryKey:
		return new(dropIndex)
	case model.ActionRenameIndex:
		return new(renameIndex)
	case model.ActionAlterIndexVisibility:
		return new(alterVisibility)
	case model.ActionModifyTableComment:
		return new(alterComment)
	}
	return nil
}

// NewChange describes a change that TiDB's executor has checked, by its sub-job. The
// table is that of the statement.
func NewChange(table *model.TableInfo, sub *model.SubJob) (job.Change, error) {
	args, err := json.Marshal(sub.JobArgs)
	if err != nil {
		return job.Change{}, fmt.Errorf("encode arguments of %s: %w", sub.Type, err)
	}
	c := job.Change{Type: sub.Type, Args: args}
	switch a := sub.JobArgs.(type) {
	case *model.ModifyColumnArgs:
		c.Was = model.FindColumnInfo(table.Columns, a.OldColumnName.L)
		users := usersOf(table, a.OldColumnName.L)
		c.Users = &users
	case *model.SetDefaultValueArgs:
		c.Was = model.FindColumnInfo(table.Columns, a.Col.Name.L)
	}
	return c, nil
}

// openChange reads the arguments of a change.
func openChange(c *job.Change) (change, error) {
	ch := newChange(c.Type)
	if ch == nil {
		return nil, fmt.Errorf("a statement's change of type %s", c.Type)
	}
	if err := json.Unmarshal(c.Args, ch); err != nil {
		return nil, fmt.Errorf("decode arguments of %s: %w", c.Type, err)
	}
	return ch, nil
}

// eachChange calls fn for each of the record's changes, in their order.
func eachChange(r *job.Record, fn func(ch change, c *job.Change) error) error {
	for i := range r.Changes {
		ch, err := openChange(&r.Changes[i])
		if err != nil {
			return err
		}
		if err := fn(ch, &r.Changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// beginChanges checks all changes and adds what is to be added, after the indexes.
func beginChanges(after *job.Record, s Subject) error {
	if !after.Mixed() {
		return nil
	}
	s.own = after.IndexIDs
	err := eachChange(after, func(ch change, c *job.Change) error {
		c.ColumnID, c.IndexIDs = 0, nil
		return ch.begin(s, c)
	})
	if err != nil {
		return err
	}
	numberColumns(after, s.TableInfo)
	var dropped []int64
	for i := range after.Changes {
		if after.Changes[i].Drops() {
			dropped = append(dropped, after.Changes[i].IndexIDs...)
		}
	}
	for _, id := range dropped {
		if err := checkNotNeeded(s, model.FindIndexInfoByID(s.Indices, id), dropped, after.IndexIDs); err != nil {
			return err
		}
	}
	if len(s.Columns) > int(atomic.LoadUint32(&config.GetGlobalConfig().TableColumnCountLimit)) {
		return dbterror.ErrTooManyFields
	}
	return rehearse(after, s.TableInfo)
}

// numberColumns gives what the statement adds the IDs that TiDB would give it: the hidden columns of
// indexes come where the indexes are among the changes. Rows hold values by these IDs, and an incremental
// restore of BR brings them into a table that TiDB has changed by the same statement.
func numberColumns(after *job.Record, table *model.TableInfo) {
	added := func(changes []job.Change) (ids []*int64) {
		for i := range changes {
			if c := &changes[i]; c.Type == model.ActionAddColumn && c.ColumnID != 0 {
				ids = append(ids, &c.ColumnID)
			}
		}
		return ids
	}
	order := added(after.Changes[:after.IndexesAt])
	for _, idx := range IndexesOf(after, table) {
		for _, ic := range idx.Columns {
			if col := table.Columns[ic.Offset]; col.Hidden {
				order = append(order, &col.ID)
			}
		}
	}
	order = append(order, added(after.Changes[after.IndexesAt:])...)
	ids, columns := make([]int64, len(order)), make([]*model.ColumnInfo, len(order))
	for i, id := range order {
		ids[i], columns[i] = *id, model.FindColumnInfoByID(table.Columns, *id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		*order[i], columns[i].ID = id, id
	}
}

// rehearse finds out whether all that is to come can be done to the table.
func rehearse(after *job.Record, table *model.TableInfo) error {
	table = table.Clone()
	if err := publishChanges(after, table); err != nil {
		return err
	}
	if err := checkPrimaryVisible(table); err != nil {
		return err
	}
	if err := checkDefinition(table); err != nil {
		return err
	}
	for _, state := range []model.SchemaState{model.StateDeleteOnly, model.StateDeleteReorganization, model.StateNone} {
		if err := dropChanges(after, table, state); err != nil {
			return err
		}
	}
	if after.DropsIndexes() {
		// Another index may have become the primary key; TiDB looks when it drops one, not with a column.
		if err := checkPrimaryVisible(table); err != nil {
			return err
		}
	}
	return checkDefinition(table)
}

// checkDefinition has TiDB read a definition.
func checkDefinition(table *model.TableInfo) error {
	if _, err := tables.TableFromMeta(autoid.NewAllocators(false), table); err != nil {
		return fmt.Errorf("definition of table %s: %w", table.Name.O, err)
	}
	return nil
}

// followChanges gives what is added the state of the indexes.
func followChanges(after *job.Record, table *model.TableInfo, state model.SchemaState) error {
	return eachChange(after, func(ch change, c *job.Change) error {
		ch.follow(table, c, state)
		return nil
	})
}

// publishChanges makes all changes visible.
func publishChanges(after *job.Record, table *model.TableInfo) error {
	return eachChange(after, func(ch change, c *job.Change) error { return ch.publish(table, c) })
}

// dropChanges gives what is dropped its next state.
func dropChanges(after *job.Record, table *model.TableInfo, state model.SchemaState) error {
	return eachChange(after, func(ch change, c *job.Change) error {
		ch.drop(table, c, state)
		return nil
	})
}

// alterComment is COMMENT of the table.
type alterComment struct {
	plainChange
	model.ModifyTableCommentArgs
}

func (*alterComment) begin(Subject, *job.Change) error { return nil }

func (a *alterComment) publish(table *model.TableInfo, _ *job.Change) error {
	table.Comment = a.Comment
	return nil
}
