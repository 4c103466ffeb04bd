package jobs

import (
	"fmt"
	"sync"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// errTableLocked refuses writers of a table that is being imported, with the number of infoschema.ErrTableLocked.
var errTableLocked = dbterror.ClassSchema.NewStdErr(errno.ErrTableLocked,
	mysql.Message("Table '%s' is being imported by job %d: no rows can be added to it until the import has ended", nil))

// TableName is a table by its names in lower case.
type TableName struct{ DB, Table string }

// Exclusion knows the tables to which no rows may be added, because they are being imported. A statement that adds rows registers itself
// before it asks (see package sql), and an import is entered here before it publishes the schema version that it waits for. So each of the
// two sees the other: the statement is refused, or the import waits for it.
type Exclusion struct {
	mu     sync.RWMutex
	tables map[TableName]excluded
}

type excluded struct{ rowID, importID int64 }

// Check refuses a statement that adds rows to a table that is being imported.
func (e *Exclusion) Check(name TableName) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if by, ok := e.tables[name]; ok {
		return errTableLocked.GenWithStackByArgs(name.Table, by.shown())
	}
	return nil
}

func (by excluded) shown() int64 {
	if by.importID != 0 {
		return by.importID
	}
	return by.rowID
}

// Concerns says that a row of TiDB's queue is an import into one of some tables.
func (e *Exclusion) Concerns(rowID int64, names ...TableName) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, name := range names {
		if by, ok := e.tables[name]; ok && by.rowID == rowID {
			return true
		}
	}
	return false
}

// exclude refuses writers of the import's table from now on.
func (e *Exclusion) exclude(r *Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := TableName{r.Import.DB, r.Import.Table}
	if by, ok := e.tables[name]; ok && by.rowID != r.Import.RowID {
		return fmt.Errorf("table %s.%s is being imported by job %d", name.DB, name.Table, by.shown())
	}
	if e.tables == nil {
		e.tables = make(map[TableName]excluded)
	}
	e.tables[name] = excluded{r.Import.RowID, r.ImportID}
	return nil
}

// admit lets writers in again when an import has ended.
func (e *Exclusion) admit(r *Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := TableName{r.Import.DB, r.Import.Table}
	if e.tables[name].rowID == r.Import.RowID {
		delete(e.tables, name)
	}
}
