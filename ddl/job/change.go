package job

import (
	"encoding/json"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
)

// Change is one thing that a statement does to its table beside adding indexes.
// What it adds has the indexes' states until it is public with them; what it drops
// loses its states from then on.
type Change struct {
	// Type is TiDB's name of it, and Args are TiDB's arguments of that type.
	Type model.ActionType `json:"type"`
	Args json.RawMessage  `json:"args"`
	// Was is the column to be changed, as the statement has found it.
	Was *model.ColumnInfo `json:"was,omitempty"`
	// Users are who uses the column, as the statement has found them; nil if an earlier release has not noted them.
	Users *Users `json:"users,omitempty"`

	// ColumnID and IndexIDs are what it is about, from StepDeleteOnly on. They are
	// empty if the change has nothing to do.
	ColumnID int64   `json:"column_id,omitempty"`
	IndexIDs []int64 `json:"index_ids,omitempty"`
	// Global says that an index to be dropped is one over all partitions.
	Global bool `json:"global,omitempty"`
}

// Users are the indexes that have a column and the generated columns that depend on it, by their IDs.
type Users struct {
	Indexes []int64 `json:"indexes,omitempty"`
	Columns []int64 `json:"columns,omitempty"`
}

// Drops says that the change takes something away.
func (c *Change) Drops() bool {
	switch c.Type {
	case model.ActionDropIndex, model.ActionDropPrimaryKey, model.ActionDropColumn:
		return true
	}
	return false
}

// Mixed says that the statement does more than adding indexes.
func (r *Record) Mixed() bool { return len(r.Changes) > 0 }

// drops says that something is to be dropped after the publication.
func (r *Record) drops() bool {
	for i := range r.Changes {
		if r.Changes[i].Drops() {
			return true
		}
	}
	return false
}

// DropsIndexes says that the statement drops indexes by name.
func (r *Record) DropsIndexes() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool {
		return c.Type == model.ActionDropIndex || c.Type == model.ActionDropPrimaryKey
	})
}

// DropState is the schema state of what the statement drops.
func (r *Record) DropState() model.SchemaState {
	switch r.Step {
	case StepPublic:
		return model.StateWriteOnly
	case StepDropDeleteOnly:
		return model.StateDeleteOnly
	case StepDropReorg:
		return model.StateDeleteReorganization
	case StepDropped:
		return model.StateNone
	case StepFinished:
		if r.State == model.JobStateSynced {
			return model.StateNone
		}
	}
	return model.StatePublic
}
