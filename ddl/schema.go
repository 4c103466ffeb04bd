package ddl

import (
	"context"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"

	"fastddl/catalog"
	"fastddl/ddl/builder"
	"fastddl/ddl/job"
)

// applySchema writes what the job makes of the schema at its step, coming from
// another, and returns the diff of the new schema version: nil if nothing
// changes.
func applySchema(ctx context.Context, m *catalog.Mutation, from job.Step, j *job.Job) (*model.SchemaDiff, error) {
	switch {
	case j.CreateDatabase != nil:
		return createDatabase(m, j)
	case j.AlterDatabase != nil:
		return alterDatabase(m, j)
	case j.DropDatabase != nil:
		return dropDatabase(ctx, m, j)
	case j.CreateTable != nil:
		return createTable(ctx, m, j)
	case j.DropTables != nil:
		return dropTables(m, j)
	case j.TruncateTable != nil:
		return truncateTable(m, j)
	case j.RenameTables != nil:
		return renameTables(ctx, m, j)
	}
	return alterTable(m, from, j)
}

func alterTable(m *catalog.Mutation, from job.Step, j *job.Job) (*model.SchemaDiff, error) {
	tbl, err := m.GetTable(j.DBID, j.TableID)
	if err != nil {
		return nil, err
	}
	if tbl == nil {
		return nil, builder.ErrTableNotExists.FastGenByArgs(j.DB, j.Table)
	}
	if err := j.Apply(from, tbl); err != nil {
		return nil, err
	}
	tbl.UpdateTS = m.StartTS
	if err := m.UpdateTable(j.DBID, tbl); err != nil {
		return nil, err
	}
	diff := &model.SchemaDiff{Type: j.Type, SchemaID: j.DBID, TableID: j.TableID}
	if j.Type == model.ActionMultiSchemaChange {
		for _, c := range j.Changes {
			diff.SubActionTypes = append(diff.SubActionTypes, c.Type)
		}
	}
	return diff, nil
}

func databaseByName(m *catalog.Mutation, name pmodel.CIStr) (*model.DBInfo, error) {
	dbs, err := m.ListDatabases()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(dbs, func(db *model.DBInfo) bool { return db.Name.L == name.L })
	if i < 0 {
		return nil, nil
	}
	return dbs[i], nil
}

func createDatabase(m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	info := j.CreateDatabase.Info
	existing, err := databaseByName(m, info.Name)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return nil, note(j, j.CreateDatabase.IfNotExists, builder.ErrDatabaseExists.FastGenByArgs(info.Name.O))
	}
	db := *info
	db.ID = j.DBID
	return &model.SchemaDiff{Type: j.Type, SchemaID: db.ID}, m.CreateDatabase(&db)
}

// note turns an error that the statement's IF [NOT] EXISTS allows into a note.
func note(j *job.Job, allowed bool, err error) error {
	if !allowed {
		return err
	}
	var env builder.Env
	env.Note(err)
	j.Warnings = append(j.Warnings, env.Warnings...)
	return nil
}

func existingDatabase(m *catalog.Mutation, j *job.Job, id int64, name string) (*model.DBInfo, error) {
	db, err := m.GetDatabase(id)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, builder.ErrDatabaseNotExists.FastGenByArgs(name)
	}
	return db, nil
}

func alterDatabase(m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	db, err := existingDatabase(m, j, j.DBID, j.DB)
	if err != nil {
		return nil, err
	}
	db.Charset, db.Collate = j.AlterDatabase.Charset, j.AlterDatabase.Collate
	return &model.SchemaDiff{Type: j.Type, SchemaID: db.ID}, m.UpdateDatabase(db)
}

func dropDatabase(ctx context.Context, m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	if _, err := existingDatabase(m, j, j.DBID, j.DB); err != nil {
		return nil, err
	}
	tables, err := m.ListTables(ctx, j.DBID)
	if err != nil {
		return nil, err
	}
	j.DropDatabase = &job.DropDatabase{}
	for _, t := range tables {
		j.DropDatabase.TableIDs = append(j.DropDatabase.TableIDs, t.ID)
	}
	restore, err := movedAutoIDs(ctx, m, j.DBID)
	if err != nil {
		return nil, err
	}
	if err := m.DropDatabase(j.DBID); err != nil {
		return nil, err
	}
	for tableID, id := range restore {
		if err := m.GetAutoIDAccessors(j.DBID, tableID).Put(id); err != nil {
			return nil, err
		}
	}
	return &model.SchemaDiff{Type: j.Type, SchemaID: j.DBID}, nil
}

// movedAutoIDs returns the counters of tables that were renamed out of a
// database: they stay under the database the table was created in, and must
// outlive it.
func movedAutoIDs(ctx context.Context, m *catalog.Mutation, dbID int64) (map[int64]model.AutoIDGroup, error) {
	dbs, err := m.ListDatabases()
	if err != nil {
		return nil, err
	}
	counters := make(map[int64]model.AutoIDGroup)
	for _, db := range dbs {
		if db.ID == dbID {
			continue
		}
		tables, err := m.ListTables(ctx, db.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			if t.AutoIDSchemaID != dbID {
				continue
			}
			if counters[t.ID], err = m.GetAutoIDAccessors(dbID, t.ID).Get(); err != nil {
				return nil, err
			}
		}
	}
	return counters, nil
}

// tableByName finds a table by name in the transaction's own view.
func tableByName(ctx context.Context, m *catalog.Mutation, dbID int64, name pmodel.CIStr) (*model.TableInfo, error) {
	tables, err := m.ListTables(ctx, dbID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tables, func(t *model.TableInfo) bool { return t.Name.L == name.L })
	if i < 0 {
		return nil, nil
	}
	return tables[i], nil
}

func createTable(ctx context.Context, m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	if _, err := existingDatabase(m, j, j.DBID, j.DB); err != nil {
		return nil, err
	}
	args := j.CreateTable
	existing, err := tableByName(ctx, m, j.DBID, args.Info.Name)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return nil, note(j, args.IfNotExists, builder.ErrTableExists.FastGenByArgs(j.DB+"."+j.Table))
	}
	tbl := args.Info.Clone()
	tbl.ID = j.TableID
	if err := putNewTable(m, j.DBID, tbl); err != nil {
		return nil, err
	}
	return &model.SchemaDiff{Type: j.Type, SchemaID: j.DBID, TableID: tbl.ID}, nil
}

// putNewTable stores a table with its AUTO_INCREMENT counter.
func putNewTable(m *catalog.Mutation, dbID int64, tbl *model.TableInfo) error {
	tbl.UpdateTS = m.StartTS
	used := max(tbl.AutoIncID-1, 0)
	return m.CreateTableAndSetAutoID(dbID, tbl, model.AutoIDGroup{RowID: used, IncrementID: used})
}

// removeTable takes a table out of the schema. Its counter goes with it.
func removeTable(m *catalog.Mutation, dbID int64, tbl *model.TableInfo) error {
	counterDB := dbID
	if tbl.AutoIDSchemaID != 0 {
		counterDB = tbl.AutoIDSchemaID
	}
	if err := m.DropTableOrView(dbID, tbl.ID); err != nil {
		return err
	}
	return m.GetAutoIDAccessors(counterDB, tbl.ID).Del()
}

func dropTables(m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	diff := &model.SchemaDiff{Type: j.Type}
	for _, ref := range j.DropTables {
		tbl, err := m.GetTable(ref.DBID, ref.ID)
		if err != nil {
			return nil, err
		}
		if tbl == nil {
			if err := note(j, j.IfExists, builder.ErrTableDropExists.FastGenByArgs(ref.DB+"."+ref.Name)); err != nil {
				return nil, err
			}
			continue
		}
		if err := removeTable(m, ref.DBID, tbl); err != nil {
			return nil, err
		}
		if diff.TableID == 0 {
			diff.SchemaID, diff.TableID = ref.DBID, ref.ID
			continue
		}
		diff.AffectedOpts = append(diff.AffectedOpts, &model.AffectedOption{SchemaID: ref.DBID, TableID: ref.ID})
	}
	if diff.TableID == 0 {
		return nil, nil
	}
	return diff, nil
}

func truncateTable(m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	ref := j.TruncateTable
	tbl, err := m.GetTable(ref.DBID, ref.ID)
	if err != nil {
		return nil, err
	}
	if tbl == nil {
		return nil, builder.ErrTableNotExists.FastGenByArgs(ref.DB, ref.Name)
	}
	if err := removeTable(m, ref.DBID, tbl); err != nil {
		return nil, err
	}
	if tbl.ID, err = m.GenGlobalID(); err != nil {
		return nil, err
	}
	tbl.AutoIncID, tbl.AutoIDSchemaID = 0, 0
	if err := putNewTable(m, ref.DBID, tbl); err != nil {
		return nil, err
	}
	j.TableID = tbl.ID
	return &model.SchemaDiff{Type: j.Type, SchemaID: ref.DBID, TableID: tbl.ID, OldTableID: ref.ID}, nil
}

func renameTables(ctx context.Context, m *catalog.Mutation, j *job.Job) (*model.SchemaDiff, error) {
	diff := &model.SchemaDiff{Type: j.Type}
	// at is the database each table is in after the renames so far.
	at := make(map[int64]int64)
	for i, r := range j.RenameTables {
		dbID, ok := at[r.ID]
		if !ok {
			dbID = r.DBID
		}
		if err := renameTable(ctx, m, r, dbID); err != nil {
			return nil, err
		}
		at[r.ID] = r.ToDBID
		a := &model.AffectedOption{SchemaID: r.ToDBID, TableID: r.ID, OldSchemaID: dbID, OldTableID: r.ID}
		if i == 0 {
			diff.SchemaID, diff.TableID, diff.OldSchemaID = a.SchemaID, a.TableID, a.OldSchemaID
			continue
		}
		diff.AffectedOpts = append(diff.AffectedOpts, a)
	}
	return diff, nil
}

func renameTable(ctx context.Context, m *catalog.Mutation, r job.Rename, fromDB int64) error {
	tbl, err := m.GetTable(fromDB, r.ID)
	if err != nil {
		return err
	}
	if tbl == nil {
		return builder.ErrTableNotExists.FastGenByArgs(r.DB, r.Name)
	}
	db, err := m.GetDatabase(r.ToDBID)
	if err != nil {
		return err
	}
	if db == nil {
		return builder.ErrDatabaseNotExists.FastGenByArgs(r.ToDB)
	}
	to := pmodel.NewCIStr(r.ToName)
	taken, err := tableByName(ctx, m, r.ToDBID, to)
	if err != nil {
		return err
	}
	if taken != nil && taken.ID != tbl.ID {
		return builder.ErrTableExists.FastGenByArgs(r.ToDB + "." + r.ToName)
	}
	tbl.Name = to
	if fromDB == r.ToDBID {
		return m.UpdateTable(fromDB, tbl)
	}
	if tbl.AutoIDSchemaID == 0 {
		tbl.AutoIDSchemaID = fromDB
	}
	if err := m.DropTableOrView(fromDB, tbl.ID); err != nil {
		return err
	}
	return m.CreateTableOrView(r.ToDBID, tbl)
}
