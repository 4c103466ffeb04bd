package ddl

import (
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/builder"
	"fastddl/ddl/job"
)

// Request is a DDL statement to execute.
type Request struct {
	Stmt ast.StmtNode
	// SQL is the statement's text, for display.
	SQL string
	// CurrentDB is the session's database, or empty.
	CurrentDB string
	ConnID    uint64
	// Loc is the session's time zone; nil is UTC.
	Loc     *time.Location
	SQLMode mysql.SQLMode
	// Collation is the session's; empty is the server's default.
	Collation string
	// Priority is the session's tidb_ddl_reorg_priority; empty is the lowest.
	Priority string
}

// planner makes a job of a statement, against the newest schema.
type planner struct {
	is  *catalog.InfoSchema
	req Request
	env builder.Env
	// primary holds the columns of the primary key that an ALTER TABLE adds.
	primary map[string]bool
}

func newPlanner(is *catalog.InfoSchema, globals *config.Globals, req Request) *planner {
	return &planner{is: is, req: req, env: builder.Env{
		SQLMode: req.SQLMode, Loc: req.Loc, Now: time.Now(),
		ClusteredIndex: globals.Bool(config.EnableClusteredIndex),
		Expressions:    is.Expressions(), Collation: req.Collation,
	}}
}

// plan returns the statement's job, or nil if there is nothing to do.
func (p *planner) plan() (*job.Job, error) {
	switch s := p.req.Stmt.(type) {
	case *ast.CreateDatabaseStmt:
		return p.createDatabase(s)
	case *ast.AlterDatabaseStmt:
		return p.alterDatabase(s)
	case *ast.DropDatabaseStmt:
		return p.dropDatabase(s)
	case *ast.CreateTableStmt:
		return p.createTable(s)
	case *ast.DropTableStmt:
		return p.dropTables(s)
	case *ast.TruncateTableStmt:
		return p.truncateTable(s)
	case *ast.RenameTableStmt:
		return p.renameTables(s.TableToTables)
	case *ast.AlterTableStmt:
		return p.alterTable(s)
	case *ast.CreateIndexStmt:
		return p.createIndex(s)
	case *ast.DropIndexStmt:
		return p.alter(s.Table, []job.Change{dropIndex(s.IndexName, s.IfExists)})
	}
	return nil, builder.Unsupported(strings.ToUpper(ast.GetStmtLabel(p.req.Stmt)))
}

// dbOf returns the name of the database that a table name is in.
func (p *planner) dbOf(t *ast.TableName) (string, error) {
	switch {
	case t.Schema.O != "":
		return t.Schema.O, nil
	case p.req.CurrentDB != "":
		return p.req.CurrentDB, nil
	}
	return "", builder.ErrNoDatabase
}

func (p *planner) database(t *ast.TableName) (*model.DBInfo, error) {
	name, err := p.dbOf(t)
	if err != nil {
		return nil, err
	}
	db, ok := p.is.Schema(name)
	if !ok {
		return nil, builder.ErrDatabaseNotExists.FastGenByArgs(name)
	}
	return db, nil
}

func (p *planner) table(t *ast.TableName) (*catalog.Table, error) {
	name, err := p.dbOf(t)
	if err != nil {
		return nil, err
	}
	if _, ok := p.is.Schema(name); !ok {
		return nil, builder.ErrDatabaseNotExists.FastGenByArgs(name)
	}
	tbl, ok := p.is.Table(name, t.Name.O)
	if !ok {
		return nil, builder.ErrTableNotExists.FastGenByArgs(name, t.Name.O)
	}
	return tbl, nil
}

func tableRef(t *catalog.Table) job.TableRef {
	return job.TableRef{DBID: t.DB.ID, ID: t.Info.ID, DB: t.DB.Name.O, Name: t.Info.Name.O}
}

func tableObject(t *catalog.Table) job.Object {
	return job.Object{DB: t.DB.Name.L, Table: t.Info.Name.L, TableID: t.Info.ID}
}

// tableJob returns a job on one existing table.
func tableJob(tp model.ActionType, t *catalog.Table) *job.Job {
	return &job.Job{
		Type: tp, DBID: t.DB.ID, TableID: t.Info.ID, DB: t.DB.Name.O, Table: t.Info.Name.O,
		Objects: []job.Object{tableObject(t)},
	}
}

func (p *planner) createDatabase(s *ast.CreateDatabaseStmt) (*job.Job, error) {
	if err := builder.CheckDatabaseName(s.Name.O); err != nil {
		return nil, err
	}
	cs, coll, _, err := builder.DatabaseCharset(s.Options)
	if err != nil {
		return nil, err
	}
	if _, exists := p.is.Schema(s.Name.O); exists {
		err := builder.ErrDatabaseExists.FastGenByArgs(s.Name.O)
		if s.IfNotExists {
			p.env.Note(err)
			return nil, nil
		}
		return nil, err
	}
	return &job.Job{
		Type: model.ActionCreateSchema, DB: s.Name.O, Objects: []job.Object{{DB: s.Name.L}},
		CreateDatabase: &job.CreateDatabase{
			Info:        &model.DBInfo{Name: s.Name, Charset: cs, Collate: coll, State: model.StatePublic},
			IfNotExists: s.IfNotExists,
		},
	}, nil
}

func (p *planner) alterDatabase(s *ast.AlterDatabaseStmt) (*job.Job, error) {
	name := s.Name.O
	if s.AlterDefaultDatabase {
		if name = p.req.CurrentDB; name == "" {
			return nil, builder.ErrNoDatabase
		}
	}
	db, ok := p.is.Schema(name)
	if !ok {
		return nil, builder.ErrDatabaseNotExists.FastGenByArgs(name)
	}
	cs, coll, said, err := builder.DatabaseCharset(s.Options)
	if err != nil || !said || db.Charset == cs && db.Collate == coll {
		return nil, err
	}
	return &job.Job{
		Type: model.ActionModifySchemaCharsetAndCollate, DBID: db.ID, DB: db.Name.O,
		Objects:       []job.Object{{DB: db.Name.L}},
		AlterDatabase: &job.AlterDatabase{Charset: cs, Collate: coll},
	}, nil
}

func (p *planner) dropDatabase(s *ast.DropDatabaseStmt) (*job.Job, error) {
	db, ok := p.is.Schema(s.Name.O)
	if !ok {
		err := builder.ErrDatabaseDropExists.FastGenByArgs(s.Name.O)
		if s.IfExists {
			p.env.Note(err)
			return nil, nil
		}
		return nil, err
	}
	if db.Name.L == mysql.SystemDB {
		return nil, builder.Unsupported("dropping the system database mysql")
	}
	return &job.Job{
		Type: model.ActionDropSchema, DBID: db.ID, DB: db.Name.O,
		Objects:      []job.Object{{DB: db.Name.L}},
		DropDatabase: &job.DropDatabase{},
	}, nil
}

func (p *planner) createTable(s *ast.CreateTableStmt) (*job.Job, error) {
	db, err := p.database(s.Table)
	if err != nil {
		return nil, err
	}
	if _, exists := p.is.Table(db.Name.O, s.Table.Name.O); exists {
		err := builder.ErrTableExists.FastGenByArgs(db.Name.O + "." + s.Table.Name.O)
		if s.IfNotExists {
			p.env.Note(err)
			return nil, nil
		}
		return nil, err
	}
	var info *model.TableInfo
	if s.ReferTable != nil {
		like, err := p.table(s.ReferTable)
		if err != nil {
			return nil, err
		}
		info, err = builder.NewTableLike(s.Table.Name, like.Info)
		if err != nil {
			return nil, err
		}
	} else if info, err = builder.NewTable(&p.env, s, db); err != nil {
		return nil, err
	}
	return &job.Job{
		Type: model.ActionCreateTable, DBID: db.ID, DB: db.Name.O, Table: info.Name.O,
		Objects:     []job.Object{{DB: db.Name.L, Table: info.Name.L}},
		CreateTable: &job.CreateTable{Info: info, IfNotExists: s.IfNotExists},
	}, nil
}

func (p *planner) dropTables(s *ast.DropTableStmt) (*job.Job, error) {
	if s.IsView || s.TemporaryKeyword != ast.TemporaryNone {
		return nil, builder.Unsupported("dropping views and temporary tables")
	}
	j := &job.Job{Type: model.ActionDropTable, IfExists: s.IfExists}
	var missing []string
	seen := make(map[int64]bool)
	for _, name := range s.Tables {
		db, err := p.dbOf(name)
		if err != nil {
			return nil, err
		}
		t, ok := p.is.Table(db, name.Name.O)
		if !ok {
			missing = append(missing, db+"."+name.Name.O)
			continue
		}
		if seen[t.Info.ID] {
			return nil, builder.ErrNonuniqTable.FastGenByArgs(name.Name.O)
		}
		seen[t.Info.ID] = true
		j.DropTables = append(j.DropTables, tableRef(t))
		j.Objects = append(j.Objects, tableObject(t))
	}
	if len(missing) > 0 {
		if !s.IfExists {
			return nil, builder.ErrTableDropExists.FastGenByArgs(strings.Join(missing, ","))
		}
		for _, name := range missing {
			p.env.Note(builder.ErrTableDropExists.FastGenByArgs(name))
		}
	}
	if len(j.DropTables) == 0 {
		return nil, nil
	}
	first := j.DropTables[0]
	j.DBID, j.TableID, j.DB, j.Table = first.DBID, first.ID, first.DB, first.Name
	return j, nil
}

func (p *planner) truncateTable(s *ast.TruncateTableStmt) (*job.Job, error) {
	t, err := p.table(s.Table)
	if err != nil {
		return nil, err
	}
	j := tableJob(model.ActionTruncateTable, t)
	ref := tableRef(t)
	j.TruncateTable = &ref
	return j, nil
}

// renameTables plans the renames one after the other, so that names can be
// swapped.
func (p *planner) renameTables(pairs []*ast.TableToTable) (*job.Job, error) {
	j := &job.Job{Type: model.ActionRenameTable}
	if len(pairs) > 1 {
		j.Type = model.ActionRenameTables
	}
	// names holds what each name stands for after the renames so far.
	names := make(map[string]*catalog.Table)
	lookup := func(db, name string) *catalog.Table {
		if t, ok := names[strings.ToLower(db+"."+name)]; ok {
			return t
		}
		t, _ := p.is.Table(db, name)
		return t
	}
	for _, pair := range pairs {
		fromDB, err := p.dbOf(pair.OldTable)
		if err != nil {
			return nil, err
		}
		toDB, err := p.dbOf(pair.NewTable)
		if err != nil {
			return nil, err
		}
		from, to := pair.OldTable.Name.O, pair.NewTable.Name.O
		t := lookup(fromDB, from)
		if t == nil {
			return nil, builder.ErrTableNotExists.FastGenByArgs(fromDB, from)
		}
		db, ok := p.is.Schema(toDB)
		if !ok {
			return nil, dbterror.ErrErrorOnRename.FastGenByArgs(fromDB+"."+from, toDB+"."+to, 168,
				fmt.Sprintf("Database `%s` doesn't exist", toDB))
		}
		if err := builder.CheckTableName(to); err != nil {
			return nil, err
		}
		if lookup(toDB, to) != nil {
			return nil, builder.ErrTableExists.FastGenByArgs(toDB + "." + to)
		}
		names[strings.ToLower(fromDB+"."+from)] = nil
		names[strings.ToLower(toDB+"."+to)] = t
		j.RenameTables = append(j.RenameTables, job.Rename{
			TableRef: job.TableRef{DBID: t.DB.ID, ID: t.Info.ID, DB: fromDB, Name: from},
			ToDBID:   db.ID, ToDB: db.Name.O, ToName: to,
		})
		j.Objects = append(j.Objects, tableObject(t), job.Object{DB: strings.ToLower(toDB), Table: strings.ToLower(to)})
	}
	first := j.RenameTables[0]
	j.DBID, j.TableID, j.DB, j.Table = first.ToDBID, first.ID, first.ToDB, first.ToName
	return j, nil
}
