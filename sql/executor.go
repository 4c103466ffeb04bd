package sql

import (
	"context"
	"errors"
	"fmt"

	pingcaperrors "github.com/pingcap/errors"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/job"
)

// executor is TiDB's DDL executor, but for statements that add indexes.
type executor struct {
	tidbddl.Executor
	layer *Layer
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

// CreateIndex implements ddl.Executor.
func (e *executor) CreateIndex(sctx sessionctx.Context, stmt *ast.CreateIndexStmt) error {
	spec := indexSpec{
		keyType: stmt.KeyType, name: stmt.IndexName, parts: stmt.IndexPartSpecifications,
		option: stmt.IndexOption, ifNotExists: stmt.IfNotExists,
	}
	if spec.ours() {
		if done, err := e.build(context.Background(), sctx, stmt.Table, []indexSpec{spec}, nil); done {
			return err
		}
	}
	return e.Executor.CreateIndex(sctx, stmt)
}

// AlterTable implements ddl.Executor. Statements that do anything beside adding
// indexes are TiDB's.
func (e *executor) AlterTable(ctx context.Context, sctx sessionctx.Context, stmt *ast.AlterTableStmt) error {
	if specs := addedIndexes(stmt.Specs); len(specs) > 0 {
		if done, err := e.build(ctx, sctx, stmt.Table, specs, stmt.Specs); done {
			return err
		}
	}
	return e.Executor.AlterTable(ctx, sctx, stmt)
}

// addedIndexes returns the indexes that an ALTER TABLE adds, if it does nothing
// else.
func addedIndexes(specs []*ast.AlterTableSpec) []indexSpec {
	var added []indexSpec
	for _, spec := range specs {
		switch spec.Tp {
		case ast.AlterTableAlgorithm, ast.AlterTableLock:
			continue
		case ast.AlterTableAddConstraint:
		default:
			return nil
		}
		c := spec.Constraint
		index := indexSpec{name: c.Name, parts: c.Keys, option: c.Option}
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
		added = append(added, index)
	}
	return added
}

// ours says that the index is of a kind that we build at all.
func (s *indexSpec) ours() bool {
	if s.keyType != ast.IndexKeyTypeNone && s.keyType != ast.IndexKeyTypeUnique {
		return false
	}
	return s.option == nil || s.option.Tp != pmodel.IndexTypeHypo && s.option.Tp != pmodel.IndexTypeHNSW
}

// build adds the indexes. It reports false if it has done nothing, and TiDB is to
// execute the statement. alter are the parts of an ALTER TABLE.
func (e *executor) build(
	ctx context.Context, sctx sessionctx.Context, name *ast.TableName, specs []indexSpec, alter []*ast.AlterTableSpec,
) (done bool, err error) {
	if engine, ok := sctx.GetSessionVars().GetSystemVar(config.DDLEngine); ok && engine == config.EngineTiDB {
		return false, nil
	}
	dbInfo, table, ok := e.find(ctx, name)
	if !ok {
		return false, nil
	}
	if on, ok := sctx.GetSessionVars().GetSystemVar(variable.TiDBEnableStatsUpdateDuringDDL); ok && variable.TiDBOptOn(on) {
		leaveToTiDB(sctx, variable.TiDBEnableStatsUpdateDuringDDL+" is ON")
		return false, nil
	}
	switch reason, err := e.layer.ddl.Unready(ctx); {
	case err != nil:
		return true, clientError(err)
	case reason != "":
		leaveToTiDB(sctx, reason)
		return false, nil
	}
	collected, err := e.collect(sctx, name, specs)
	if err != nil {
		return true, err
	}
	if len(collected.SubJobs) == 0 {
		return true, nil // they exist, and the statement says that this is no error
	}
	req, err := e.request(sctx, dbInfo, table, collected)
	if err != nil {
		return true, err
	}
	if err := e.supported(table, req.Indexes); err != nil {
		if errors.Is(err, backfill.ErrUnsupported) {
			leaveToTiDB(sctx, err.Error())
			return false, nil
		}
		return true, err
	}
	if alter != nil {
		if _, err := tidbddl.ResolveAlterTableSpec(sctx, alter); err != nil {
			return true, err
		}
	}
	err = clientError(e.layer.ddl.Build(ctx, sctx, req))
	if dbterror.ErrDupKeyName.Equal(err) && len(specs) == 1 && specs[0].ifNotExists {
		sctx.GetSessionVars().StmtCtx.AppendNote(err)
		return true, nil
	}
	return true, err
}

// clientError is an error as pkg/server wants it: it does not look below wrappings
// of the standard library for a MySQL number.
func clientError(err error) error {
	if te := job.FindTerror(err); te != nil {
		return te
	}
	return err
}

// find returns a table that we can add indexes to. What it does not return, among
// others what does not exist, is for TiDB to deal with.
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

// leaveToTiDB notes why a statement is TiDB's.
func leaveToTiDB(sctx sessionctx.Context, reason string) {
	sctx.GetSessionVars().StmtCtx.AppendNote(pingcaperrors.NewNoStackErrorf("the index is built by TiDB's own way: %s", reason))
}

// collect has TiDB's executor check the indexes and name them. While
// MultiSchemaInfo is set it collects jobs instead of queueing them, which is how it
// executes an ALTER TABLE of several parts (pkg/ddl/executor.go, DoDDLJobWrapper).
func (e *executor) collect(sctx sessionctx.Context, name *ast.TableName, specs []indexSpec) (*model.MultiSchemaInfo, error) {
	stmtCtx := sctx.GetSessionVars().StmtCtx
	collected := model.NewMultiSchemaInfo()
	stmtCtx.MultiSchemaInfo = collected
	defer func() { stmtCtx.MultiSchemaInfo = nil }()
	taken := make(map[string]bool)
	for _, spec := range specs {
		if err := e.collectOne(sctx, name, spec, collected, taken); err != nil {
			return nil, err
		}
	}
	return collected, nil
}

// collectOne adds one index to those collected. TiDB names an index without a name
// so that no other of the table has it; here it gets one that no other of the
// statement has either, as in MySQL.
func (e *executor) collectOne(
	sctx sessionctx.Context, name *ast.TableName, spec indexSpec, collected *model.MultiSchemaInfo, taken map[string]bool,
) error {
	before := *collected
	base := ""
	for n := 2; ; n++ {
		if err := e.check(sctx, name, &spec); err != nil {
			if base != "" && dbterror.ErrDupKeyName.Equal(err) {
				spec.name = fmt.Sprintf("%s_%d", base, n)
				continue
			}
			return err
		}
		if len(collected.AddIndexes) == len(before.AddIndexes) {
			return nil // it exists, and the statement says that this is no error
		}
		index := collected.AddIndexes[len(collected.AddIndexes)-1]
		if !taken[index.L] {
			taken[index.L] = true
			return nil
		}
		if base == "" && spec.name != "" {
			return dbterror.ErrOperateSameIndex.GenWithStackByArgs(index.L)
		}
		if base == "" {
			base = index.O
		}
		*collected = before
		spec.name = fmt.Sprintf("%s_%d", base, n)
	}
}

func (e *executor) check(sctx sessionctx.Context, name *ast.TableName, spec *indexSpec) error {
	// TiDB writes into what it is given; if the index turns out to be TiDB's to
	// build it is given the statement again.
	parts := make([]*ast.IndexPartSpecification, len(spec.parts))
	for i, p := range spec.parts {
		part := *p
		parts[i] = &part
	}
	var option *ast.IndexOption
	if spec.option != nil {
		o := *spec.option
		option = &o
	}
	if !spec.primary {
		return e.Executor.CreateIndex(sctx, &ast.CreateIndexStmt{
			KeyType: spec.keyType, IfNotExists: spec.ifNotExists, IndexName: spec.name, Table: name,
			IndexPartSpecifications: parts, IndexOption: option,
		})
	}
	creator, ok := e.Executor.(interface {
		CreatePrimaryKey(sessionctx.Context, ast.Ident, pmodel.CIStr, []*ast.IndexPartSpecification, *ast.IndexOption) error
	})
	if !ok {
		return dbterror.ErrGeneralUnsupportedDDL.GenWithStackByArgs("ADD PRIMARY KEY")
	}
	return creator.CreatePrimaryKey(sctx, ast.Ident{Schema: name.Schema, Name: name.Name}, pmodel.NewCIStr(spec.name), parts, option)
}

// request is what package ddl is asked for.
func (e *executor) request(
	sctx sessionctx.Context, db *model.DBInfo, table *model.TableInfo, collected *model.MultiSchemaInfo,
) (ddl.Request, error) {
	req := ddl.Request{
		Schema: db, Table: table, Type: model.ActionAddIndex,
		Meta: tidbddl.NewDDLReorgMeta(sctx), Settings: sessionSettings(sctx.GetSessionVars()),
	}
	req.Query, _ = sctx.Value(sessionctx.QueryString).(string)
	for _, sub := range collected.SubJobs {
		args, ok := sub.JobArgs.(*model.ModifyIndexArgs)
		if !ok {
			return ddl.Request{}, dbterror.ErrGeneralUnsupportedDDL.GenWithStackByArgs(sub.Type.String())
		}
		req.Indexes = append(req.Indexes, args.IndexArgs...)
	}
	if len(req.Indexes) == 1 && req.Indexes[0].IsPK {
		req.Type = model.ActionAddPrimaryKey
	}
	return req, nil
}

// supported says why we cannot build the indexes: the statement is wrong, or they
// are backfill.ErrUnsupported.
func (e *executor) supported(table *model.TableInfo, args []*model.IndexArg) error {
	table = table.Clone()
	var indexes []*model.IndexInfo
	for _, arg := range args {
		idx, err := ddl.AddIndex(table, arg)
		if err != nil {
			return err
		}
		indexes = append(indexes, idx)
	}
	return e.layer.ddl.Backfiller().Supported(table, indexes)
}

// sessionSettings are the settings of a job that a session differs in from the
// global variables.
func sessionSettings(vars *variable.SessionVars) job.Settings {
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
	return s
}
