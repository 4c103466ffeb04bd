package sql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/errno"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
)

// executor is TiDB's DDL executor, but for statements that add indexes.
type executor struct {
	tidbddl.Executor
	layer *Layer
}

// CreateIndex implements ddl.Executor.
func (e *executor) CreateIndex(sctx sessionctx.Context, stmt *ast.CreateIndexStmt) error {
	if err := e.awaitImports(sctx, stmt.Table); err != nil {
		return err
	}
	index := indexOf(stmt)
	if stmt.IfNotExists {
		if err := e.awaitDecided(context.Background(), sctx, stmt.Table, pmodel.NewCIStr(stmt.IndexName)); err != nil {
			return err
		}
	}
	done, err := take(sctx, true, func() error {
		if !index.ours() {
			return leftToTiDB("")
		}
		return e.build(context.Background(), sctx, stmt.Table, []part{{index: index}})
	})
	if done {
		return err
	}
	return e.Executor.CreateIndex(sctx, stmt)
}

// indexOf is the index that a CREATE INDEX adds.
func indexOf(stmt *ast.CreateIndexStmt) *indexSpec {
	return &indexSpec{
		keyType: stmt.KeyType, name: stmt.IndexName, parts: stmt.IndexPartSpecifications,
		option: stmt.IndexOption, ifNotExists: stmt.IfNotExists,
	}
}

// DropIndex implements ddl.Executor.
func (e *executor) DropIndex(sctx sessionctx.Context, stmt *ast.DropIndexStmt) error {
	if err := e.awaitImports(sctx, stmt.Table); err != nil {
		return err
	}
	if err := e.awaitBuilt(context.Background(), sctx, stmt.Table, pmodel.NewCIStr(stmt.IndexName)); err != nil {
		return err
	}
	return e.Executor.DropIndex(sctx, stmt)
}

// AlterTable implements ddl.Executor. Statements that add no indexes are TiDB's, and
// those that do more than can be done together with an index build.
func (e *executor) AlterTable(ctx context.Context, sctx sessionctx.Context, stmt *ast.AlterTableStmt) error {
	if err := e.awaitImports(sctx, altered(stmt)...); err != nil {
		return err
	}
	if err := e.awaitBuilt(ctx, sctx, stmt.Table, takenAway(stmt.Specs)...); err != nil {
		return err
	}
	if err := e.awaitExchange(ctx, sctx, stmt); err != nil {
		return err
	}
	if err := e.awaitDecided(ctx, sctx, stmt.Table, addedIfNotThere(stmt.Specs)...); err != nil {
		return err
	}
	done, err := take(sctx, addsIndexes(stmt.Specs), func() error {
		if !addsIndexes(stmt.Specs) {
			return leftToTiDB("")
		}
		specs, err := tidbddl.ResolveAlterTableSpec(sctx, stmt.Specs)
		if err != nil {
			return err
		}
		parts, err := partsOf(specs)
		if err != nil {
			return err
		}
		return e.build(ctx, sctx, stmt.Table, parts)
	})
	if done {
		return err
	}
	return e.Executor.AlterTable(ctx, sctx, stmt)
}

// awaitBuilt waits until none of the indexes is being built. A statement that drops or
// renames one waits in line until it is there; but TiDB does not find it before (schema.BeingBuilt),
// and would say at once that there is no such index.
func (e *executor) awaitBuilt(ctx context.Context, sctx sessionctx.Context, name *ast.TableName, indexes ...pmodel.CIStr) error {
	if len(indexes) == 0 {
		return nil
	}
	return e.awaitTable(ctx, sctx, name, func(table *model.TableInfo) bool {
		return slices.ContainsFunc(indexes, func(index pmodel.CIStr) bool { return schema.BeingBuilt(table, index.L) != nil })
	})
}

// awaitDecided waits until each of the indexes is there or is not. IF NOT EXISTS says that a statement has nothing to do; an index that is
// being built may still fail.
func (e *executor) awaitDecided(ctx context.Context, sctx sessionctx.Context, name *ast.TableName, indexes ...pmodel.CIStr) error {
	if len(indexes) == 0 {
		return nil
	}
	return e.awaitTable(ctx, sctx, name, func(table *model.TableInfo) bool {
		return slices.ContainsFunc(indexes, func(index pmodel.CIStr) bool {
			idx := table.FindIndexByName(index.L) // of TiDB's builds
			return schema.BeingBuilt(table, index.L) != nil || idx != nil && idx.State != model.StatePublic
		})
	})
}

// addedIfNotThere are the indexes that an ALTER TABLE adds IF NOT EXISTS.
func addedIfNotThere(specs []*ast.AlterTableSpec) (indexes []pmodel.CIStr) {
	for _, spec := range specs {
		if spec.Tp == ast.AlterTableAddConstraint && spec.Constraint.IfNotExists && spec.Constraint.Name != "" {
			indexes = append(indexes, pmodel.NewCIStr(spec.Constraint.Name))
		}
	}
	return indexes
}

// awaitTable waits until a table is not busy any more.
func (e *executor) awaitTable(ctx context.Context, sctx sessionctx.Context, name *ast.TableName, busy func(table *model.TableInfo) bool) error {
	return clientError(e.layer.ddl.Await(sctx.GetSessionVars(), func() bool {
		_, table, ok := e.find(ctx, name)
		return !ok || !busy(table)
	}))
}

// awaitExchange waits until no index of two tables is being built, one of which an ALTER TABLE exchanges with a partition of
// the other. TiDB compares their indexes by name before the statement waits in line.
func (e *executor) awaitExchange(ctx context.Context, sctx sessionctx.Context, stmt *ast.AlterTableStmt) error {
	for _, spec := range stmt.Specs {
		if spec.Tp != ast.AlterTableExchangePartition {
			continue
		}
		for _, name := range []*ast.TableName{stmt.Table, spec.NewTable} {
			if err := e.awaitTable(ctx, sctx, name, schema.BuildsIndexes); err != nil {
				return err
			}
		}
	}
	return nil
}

// CreateTable implements ddl.Executor. CREATE TABLE ... LIKE waits in line behind the index builds of the
// other table, but TiDB copies the definition of that before: with the hidden columns of an expression
// index that is being built, and without the index (BuildTableInfoWithLike in pkg/ddl/create_table.go).
// No statement could remove them. So it waits here for such indexes.
func (e *executor) CreateTable(sctx sessionctx.Context, stmt *ast.CreateTableStmt) error {
	if stmt.ReferTable != nil {
		err := e.awaitTable(context.Background(), sctx, stmt.ReferTable, func(table *model.TableInfo) bool {
			return slices.ContainsFunc(table.Indices, func(idx *model.IndexInfo) bool {
				return idx.State != model.StatePublic && slices.ContainsFunc(idx.Columns, func(ic *model.IndexColumn) bool { return table.Columns[ic.Offset].Hidden })
			})
		})
		if err != nil {
			return err
		}
	}
	return e.Executor.CreateTable(sctx, stmt)
}

// leftToTiDB is the error of a statement that TiDB is to execute. It says why, if
// that does not go without saying.
type leftToTiDB string

func (l leftToTiDB) Error() string { return "the index is built by TiDB's own way: " + string(l) }

// errKeyOfTiDB refuses a statement that has a key and that TiDB would execute.
var errKeyOfTiDB = dbterror.ClassDDL.NewStdErr(errno.ErrNotSupportedYet,
	parsermysql.Message("fastddl_ddl_submit_key is not supported for an index that TiDB builds: %s", nil))

// take executes a statement by fn. It reports false if that is left to TiDB: then
// fn has done nothing, and the statement's warnings are what they were, but for a
// note that says why. It asks for none where the session leaves all builds to TiDB. A statement that adds indexes and has a key
// is not left to TiDB, which would build them again.
func take(sctx sessionctx.Context, adds bool, fn func() error) (done bool, err error) {
	key, _ := sctx.GetSessionVars().GetSystemVar(config.SubmitKey)
	keyed := adds && key != ""
	if engine, ok := sctx.GetSessionVars().GetSystemVar(config.DDLEngine); ok && engine == config.EngineTiDB {
		if keyed {
			return true, errKeyOfTiDB.GenWithStackByArgs("fastddl_ddl_engine is tidb")
		}
		return false, nil
	}
	stmtCtx := sctx.GetSessionVars().StmtCtx
	warnings := int(stmtCtx.WarningCount())
	err = fn()
	var left leftToTiDB
	if !errors.As(err, &left) {
		return true, err
	}
	stmtCtx.TruncateWarnings(warnings)
	if keyed {
		return true, errKeyOfTiDB.GenWithStackByArgs(cmp.Or(string(left), "it is one that only TiDB builds"))
	}
	if left != "" {
		stmtCtx.AppendNote(pingcaperrors.NewNoStackErrorf("%s", left.Error()))
	}
	return false, nil
}

// build executes the parts of a statement, if they are for us to execute.
func (e *executor) build(ctx context.Context, sctx sessionctx.Context, name *ast.TableName, parts []part) error {
	query, _ := sctx.Value(sessionctx.QueryString).(string)
	if found, err := e.layer.ddl.Resubmitted(ctx, sctx, name.Schema.L, name.Name.L, query); found || err != nil {
		return clientError(err)
	}
	if err := e.ready(ctx, sctx, name); err != nil {
		return err
	}
	req, err := e.requested(ctx, sctx, name, parts)
	if errors.Is(err, errNothingToDo) {
		analysisOf(sctx).nothingToDo()
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.supported(req.Table, req.Indexes); err != nil {
		if errors.Is(err, encode.ErrUnsupported) {
			return leftToTiDB(err.Error())
		}
		return err
	}
	a := analysisOf(sctx)
	a.prepare(ctx, sctx, &req)
	if err := e.preflight(ctx, sctx, req); err != nil {
		return clientError(err)
	}
	a.begin()
	err = clientError(e.layer.ddl.Build(ctx, sctx, req))
	if dbterror.ErrDupKeyName.Equal(err) && len(parts) == 1 && parts[0].index.ifNotExists {
		sctx.GetSessionVars().StmtCtx.AppendNote(err)
		a.nothingToDo()
		return nil
	}
	return err
}

// ready leaves a statement to TiDB whose indexes cannot be built now, whichever they are.
func (e *executor) ready(ctx context.Context, sctx sessionctx.Context, name *ast.TableName) error {
	if _, _, ok := e.find(ctx, name); !ok {
		return leftToTiDB("")
	}
	switch reason, err := e.layer.ddl.Unready(ctx); {
	case err != nil:
		return clientError(err)
	case reason != "":
		return leftToTiDB(reason)
	}
	return nil
}

// errNothingToDo says that all is as a statement wants it, and that the statement says that this is no error.
var errNothingToDo = errors.New("the indexes are there already")

// requested has TiDB check the parts of a statement, and returns what is asked of package ddl.
func (e *executor) requested(ctx context.Context, sctx sessionctx.Context, name *ast.TableName, parts []part) (ddl.Request, error) {
	dbInfo, table, ok := e.find(ctx, name)
	if !ok {
		return ddl.Request{}, leftToTiDB("")
	}
	collected, err := e.collect(ctx, sctx, name, table, parts)
	if err != nil {
		return ddl.Request{}, err
	}
	if len(collected.SubJobs) == 0 {
		return ddl.Request{}, errNothingToDo
	}
	return e.request(sctx, dbInfo, table, collected)
}

// find returns a table that we can add indexes to. All others, and tables that do not
// exist, are left to TiDB.
func (e *executor) find(ctx context.Context, name *ast.TableName) (*model.DBInfo, *model.TableInfo, bool) {
	schema := e.layer.dom.InfoSchema()
	db, ok := schema.SchemaByName(name.Schema)
	if !ok || tidbutil.IsMemOrSysDB(name.Schema.L) {
		return nil, nil, false
	}
	table, err := schema.TableByName(ctx, name.Schema, name.Name)
	if err != nil {
		return nil, nil, false
	}
	info := table.Meta()
	plain := !info.IsView() && !info.IsSequence() && info.TempTableType == model.TempTableNone &&
		info.TableCacheStatusType == model.TableCacheStatusDisable && info.State == model.StatePublic
	return db, info, plain
}

// request is what package ddl is asked for.
func (e *executor) request(
	sctx sessionctx.Context, db *model.DBInfo, table *model.TableInfo, collected *model.MultiSchemaInfo,
) (ddl.Request, error) {
	req := ddl.Request{
		Schema: db, Table: table, Type: model.ActionAddIndex,
		Meta: tidbddl.NewDDLReorgMeta(sctx), Settings: sessionSettings(sctx.GetSessionVars(), e.layer.opts.Globals),
		Shared: variable.EnableDistTask.Load(), MaxNodes: maxNodes(sctx.GetSessionVars()),
	}
	req.Verify, _ = sctx.GetSessionVars().GetSystemVar(config.Verify)
	req.Query, _ = sctx.Value(sessionctx.QueryString).(string)
	indexes := 0 // but for a primary key
	for _, sub := range collected.SubJobs {
		switch sub.Type {
		case model.ActionAddIndex, model.ActionAddPrimaryKey:
			args, ok := sub.JobArgs.(*model.ModifyIndexArgs)
			if !ok {
				return ddl.Request{}, dbterror.ErrGeneralUnsupportedDDL.GenWithStackByArgs(sub.Type.String())
			}
			if sub.Type == model.ActionAddIndex {
				indexes++
			}
			if sub.Type == model.ActionAddIndex || len(req.Indexes) == 0 {
				req.IndexesAt = len(req.Changes)
			}
			req.Indexes = append(req.Indexes, args.IndexArgs...)
		default:
			change, err := schema.NewChange(table, sub)
			if err != nil {
				return ddl.Request{}, err
			}
			req.Changes = append(req.Changes, change)
		}
	}
	switch {
	case len(req.Indexes) == 0:
		return ddl.Request{}, leftToTiDB("") // those that it adds are there already
	case len(req.Changes) > 0:
		req.Type = model.ActionMultiSchemaChange
		if indexes > 1 {
			req.IndexesAt = len(req.Changes) // as TiDB does when it puts several into one sub-job
		}
	case len(req.Indexes) == 1 && req.Indexes[0].IsPK:
		req.Type = model.ActionAddPrimaryKey
	}
	return req, nil
}

// maxNodes is the session's tidb_max_dist_task_nodes.
func maxNodes(vars *variable.SessionVars) int {
	text, _ := vars.GetSystemVar(config.MaxDistTaskNodes)
	return variable.TidbOptInt(text, automaticNodes)
}

// supported says why we cannot build the indexes: the statement is wrong, or they
// are encode.ErrUnsupported.
func (e *executor) supported(table *model.TableInfo, args []*model.IndexArg) error {
	table = table.Clone()
	var indexes []*model.IndexInfo
	for _, arg := range args {
		idx, err := schema.AddIndex(table, arg)
		if err != nil {
			return err
		}
		indexes = append(indexes, idx)
	}
	return e.layer.ddl.Backfiller().Supported(table, indexes)
}

// sessionSettings are the settings of a job that a session differs in from the
// global variables.
func sessionSettings(vars *variable.SessionVars, globals *config.Globals) job.Settings {
	var s job.Settings
	switch vars.DDLReorgPriority {
	case tidbkv.PriorityHigh:
		s.Priority = config.PriorityHigh
	case tidbkv.PriorityNormal:
		s.Priority = config.PriorityNormal
	}
	if text, ok := vars.GetSystemVar(variable.TiDBDDLReorgWorkerCount); ok {
		if n := variable.TidbOptInt(text, 0); n != int(variable.GetDDLReorgWorkerCounter()) {
			s.Threads = n
		}
	}
	if text, ok := vars.GetSystemVar(variable.TiDBDDLReorgBatchSize); ok {
		if n := variable.TidbOptInt(text, 0); n != int(variable.GetDDLReorgBatchSize()) {
			s.BatchSize = n
		}
	}
	s.Window, _ = vars.GetSystemVar(config.DDLWindow)
	if text, ok := vars.GetSystemVar(config.DDLPublish); ok && text != config.PublishAuto {
		s.Publish = text
	}
	if text, ok := vars.GetSystemVar(config.DDLMaxHold); ok {
		// It was checked when it was set.
		if d, err := time.ParseDuration(text); err == nil && d != globals.Duration(config.DDLMaxHold) {
			s.MaxHold = d
		}
	}
	return s
}
